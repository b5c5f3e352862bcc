// POST /api/pull: clients pull a model before they use it, also if the server has it. One that is served is there; another
// one cannot be downloaded by a request.

import { z } from "zod";
import {
  openEventStream,
  type PostRoute,
  requestedModel,
  type Route,
  type ServerContext,
} from "../../completion/route-context.js";
import { RequestError } from "../../http/request-error.js";
import { modelField } from "../../schema/fields.js";
import { GIVEN_AT_START } from "./refused.js";

const fields = z.object({
  model: modelField.optional(),
  name: modelField.optional().describe("The older name of model"),
  stream: z.boolean().optional().describe("True by default"),
});

/** The endpoint that Ollama's clients download models with. */
export function ollamaPull(context: ServerContext): readonly Route[] {
  const { options } = context;
  const route: PostRoute<z.infer<typeof fields>> = {
    method: "POST",
    path: "/api/pull",
    summary: "Whether a model is there, in Ollama's API; one that is not is refused",
    schema: { fields, withoutEffect: ["insecure", "username", "password"], refused: {} },
    streams: "ndjson",
    handle: async (exchange) => {
      const { model, name, stream = true } = exchange.body;
      const served = requestedModel(options, model ?? name);
      if (!options.pool.list().some((listing) => listing.name === served))
        throw new RequestError(`[model] downloading a model is not supported: ${GIVEN_AT_START}`, {
          status: 501,
          code: "not_implemented",
          param: "model",
        });
      const done = { status: "success" };
      if (!stream) return done;
      using output = openEventStream(context, exchange, "ndjson");
      await output.send(done);
      return undefined;
    },
  };
  return [route];
}
