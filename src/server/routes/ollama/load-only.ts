// Requests without a prompt or messages: Ollama's clients send them to load a model, or to unload it.

import { acquireModel, type Exchange, type ServerContext } from "../../completion/route-context.js";
import { RequestError } from "../../http/request-error.js";
import { shownName } from "./model-names.js";
import type { ReplyForm } from "./writer.js";

interface LoadBody {
  readonly model: string;
  readonly keep_alive?: number | string | undefined;
}

/** Loads the model, and answers with an empty reply. */
export async function loadOnly(context: ServerContext, exchange: Exchange<LoadBody>, form: ReplyForm): Promise<object> {
  const { model: requested, keep_alive: keepAlive } = exchange.body;
  if (asksToUnload(keepAlive)) {
    throw new RequestError(
      "[keep_alive] a request cannot unload a model: the server does, when memory is short or after its idle time",
      { status: 501, code: "not_implemented", param: "keep_alive" },
    );
  }
  using lease = await acquireModel(context, exchange, requested);
  return {
    model: shownName(lease.model.name, requested),
    created_at: new Date().toISOString(),
    ...form({}),
    done: true,
    done_reason: "load",
  };
}

/** No time at all: 0, "0", "0s". */
function asksToUnload(keepAlive: number | string | undefined): boolean {
  return keepAlive === 0 || (typeof keepAlive === "string" && /^0+(?:\.0+)?[a-zµ]*$/.test(keepAlive));
}
