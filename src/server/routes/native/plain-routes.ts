// What is answered at once: the models, the server's health, its numbers and its own description.

import type { FastifyInstance, FastifyRequest } from "fastify";
import type { ModelListing } from "../../../engine/serving.js";
import type { ServerContext } from "../../completion/route-context.js";
import { openApiDocument } from "../openapi.js";
import { RequestError } from "../../http/request-error.js";
import { stoppingError } from "../../http/request-tracker.js";

const OWNER = "rocmforge";
const NOT_READY_STATUS = 503;
const RETRY_AFTER_SECONDS = "1";
const FAILED_RETRY_AFTER_SECONDS = "10";

export function declarePlainRoutes(app: FastifyInstance, { options, metrics, inFlight }: ServerContext): void {
  const { shelf, limits } = options;

  app.get("/v1/models", (request, reply) => {
    const models = shelf.list();
    return reply.send(
      isAnthropicClient(request)
        ? {
            data: models.map(anthropicModel),
            has_more: false,
            first_id: models[0]?.name ?? null,
            last_id: models.at(-1)?.name ?? null,
          }
        : { object: "list", data: models.map(openAiModel) },
    );
  });

  app.get<{ Params: { id: string } }>("/v1/models/:id", (request, reply) => {
    const model = shelf.list().find(({ name }) => name === request.params.id);
    if (model !== undefined) return reply.send(isAnthropicClient(request) ? anthropicModel(model) : openAiModel(model));
    throw new RequestError("[model] no model of that name is served; GET /v1/models lists them", {
      status: 404,
      code: "model_not_found",
      param: "model",
    });
  });

  app.get("/health", { config: { open: true } }, (_, reply) => {
    if (inFlight.stopping) {
      const { status, retryAfterSeconds } = stoppingError();
      return reply.code(status).header("retry-after", String(retryAfterSeconds)).send({ status: "stopping" });
    }
    const { status: readiness } = options.readiness;
    if (readiness !== "ok")
      return reply.code(NOT_READY_STATUS).header("retry-after", RETRY_AFTER_SECONDS).send({ status: readiness });
    const states = shelf.list().map(({ state }) => state);
    if (!states.includes("failed")) return reply.send({ status: "ok" });
    // A load balancer sends no requests to a server that is not healthy, so that none would load the model again.
    shelf.recover();
    if (states.some((state) => state !== "failed")) return reply.send({ status: "degraded" });
    return reply.code(NOT_READY_STATUS).header("retry-after", FAILED_RETRY_AFTER_SECONDS).send({ status: "failed" });
  });

  app.get("/metrics", (_, reply) => metrics.text().then((text) => reply.type(metrics.contentType).send(text)));

  const document = openApiDocument(limits, options.access.apiKeys.length > 0);
  app.get("/openapi.json", (_, reply) => reply.send(document));
}

/** The one path that both APIs have; Anthropic's clients always name their version. */
function isAnthropicClient({ headers }: FastifyRequest): boolean {
  return headers["anthropic-version"] !== undefined;
}

/** Where the files are is nobody's business. */
function openAiModel({ name, created, contextTokens, state }: ModelListing): object {
  return { id: name, object: "model", created, owned_by: OWNER, context_length: contextTokens ?? null, state };
}

function anthropicModel({ name, created }: ModelListing): object {
  return { type: "model", id: name, display_name: name, created_at: new Date(created * 1000).toISOString() };
}
