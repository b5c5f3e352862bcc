// GET /residency: every tensor of a model and whether it is loaded, once as JSON, or as events to a client that accepts
// text/event-stream: the list first, then what has changed. States are read from the tensors' handles a few times per
// second, so a load pays nothing for being watched.

import type { FastifyRequest } from "fastify";
import type { PlanResidency } from "../../../plan/residency.js";
import type { LazyTensorState } from "../../../tensor/lazy-tensor.js";
import type { RouteFactory, ServerContext } from "../../completion/route-context.js";
import { LiveFeed, wantsEvents, type Watcher } from "../../http/live-feed.js";
import { RequestError } from "../../http/request-error.js";

const INTERVAL_MS = 250;

/** The states as the API names them. */
const STATES = {
  unloaded: "unloaded",
  loading: "arriving",
  resident: "resident",
  failed: "failed",
} as const satisfies Record<LazyTensorState, string>;

/** The endpoint for the tensors of a model. */
export const residency: RouteFactory = (context) => {
  const feed = new LiveFeed(INTERVAL_MS, context.options.limits);
  return [
    {
      method: "GET",
      path: "/residency",
      summary:
        "Each tensor of a model: its layer, type, bytes and device, and whether it is unloaded, arriving or resident",
      query: { model: "The model's name; the first model by default" },
      streams: true,
      close: () => feed.close(),
      handle: (request, reply) => {
        const watcher = new ResidencyWatcher(context, requestedName(context, request));
        return wantsEvents(request) ? feed.watch(request, reply, watcher) : reply.send(watcher.next()?.data);
      },
    },
  ];
};

function requestedName({ options: { pool } }: ServerContext, { query }: FastifyRequest): string {
  const { model } = query as { readonly model?: string | readonly string[] };
  const listing = pool.list().find(({ name }) => model === undefined || name === model);
  if (listing !== undefined) return listing.name;
  throw new RequestError("[model] no model of that name is served; GET /v1/models lists them", {
    status: 404,
    code: "model_not_found",
    param: "model",
  });
}

/** The whole list first, and whenever the model is loaded again; otherwise the tensors whose state has changed. */
class ResidencyWatcher implements Watcher {
  readonly #context: ServerContext;
  readonly #name: string;
  #residency: PlanResidency | undefined;
  /** The states that the client knows. */
  #known: LazyTensorState[] | undefined;
  #modelState = "";

  constructor(context: ServerContext, name: string) {
    this.#context = context;
    this.#name = name;
  }

  next() {
    const { pool } = this.#context.options;
    const current = pool.residency(this.#name);
    const modelState = pool.list().find(({ name }) => name === this.#name)?.state ?? "unloaded";
    const isOther = current !== this.#residency || this.#known === undefined;
    const isChanged = modelState !== this.#modelState;
    this.#residency = current;
    this.#modelState = modelState;
    if (isOther) return { event: "tensors", data: this.#whole(modelState, current) };
    const changed = this.#changed(current);
    if (changed.length === 0 && !isChanged) return undefined;
    return { event: "states", data: { model: this.#name, state: modelState, changed } };
  }

  #whole(state: string, current: PlanResidency | undefined): object {
    this.#known = current?.tensors.map((_, index) => current.state(index)) ?? [];
    return {
      model: this.#name,
      state,
      device: current?.device ?? null,
      tensors: (current?.tensors ?? []).map((tensor, index) => ({
        name: tensor.name,
        segment: tensor.segment,
        layer: tensor.layer ?? null,
        type: tensor.type,
        shape: tensor.shape,
        bytes: tensor.sizeBytes,
        place: tensor.onHost ? "host" : "device",
        state: STATES[current?.state(index) ?? "unloaded"],
        resident_bytes: current?.residentBytes(index) ?? 0,
      })),
    };
  }

  #changed(current: PlanResidency | undefined): readonly object[] {
    const known = this.#known ?? [];
    if (current === undefined) return [];
    const changed: object[] = [];
    for (let index = 0; index < known.length; index++) {
      const state = current.state(index);
      if (state === known[index]) continue;
      known[index] = state;
      changed.push({ index, state: STATES[state], resident_bytes: current.residentBytes(index) });
    }
    return changed;
  }
}
