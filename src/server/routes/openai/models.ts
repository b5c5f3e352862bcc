// GET /v1/models and /v1/models/{id}, in OpenAI's form or Anthropic's.

import type { FastifyRequest } from "fastify";
import type { ModelListing } from "../../../engine/serving.js";
import type { RouteFactory } from "../../completion/route-context.js";
import { RequestError } from "../../http/request-error.js";

const OWNER = "rocmforge";

/** The endpoints that list the served models. */
export const models: RouteFactory = ({ options: { pool } }) => [
  {
    method: "GET",
    path: "/v1/models",
    summary: "The models that are served",
    handle: (request, reply) => {
      const served = pool.list();
      if (!isAnthropicClient(request)) return reply.send({ object: "list", data: served.map(openAiModel) });
      return reply.send({
        data: served.map(anthropicModel),
        has_more: false,
        first_id: served[0]?.name ?? null,
        last_id: served.at(-1)?.name ?? null,
      });
    },
  },
  {
    method: "GET",
    path: "/v1/models/{id}",
    summary: "One of the models",
    handle: (request, reply) => {
      const { id } = request.params as { readonly id: string };
      const model = pool.list().find(({ name }) => name === id);
      if (model !== undefined)
        return reply.send(isAnthropicClient(request) ? anthropicModel(model) : openAiModel(model));
      throw new RequestError("[model] no model of that name is served; GET /v1/models lists them", {
        status: 404,
        code: "model_not_found",
        param: "model",
      });
    },
  },
];

/** Both APIs have this path; Anthropic's clients always send their API version. */
function isAnthropicClient({ headers }: FastifyRequest): boolean {
  return headers["anthropic-version"] !== undefined;
}

/** Without the path of the model's file, which is private to the server. */
function openAiModel({ name, created, contextTokens, state }: ModelListing): object {
  return { id: name, object: "model", created, owned_by: OWNER, context_length: contextTokens ?? null, state };
}

function anthropicModel({ name, created }: ModelListing): object {
  return { type: "model", id: name, display_name: name, created_at: new Date(created * 1000).toISOString() };
}
