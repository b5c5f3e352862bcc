// GET /health: whether the server can take requests, for load balancers. It needs no API key.

import type { RouteFactory } from "../../completion/route-context.js";
import { stoppingError } from "../../http/request-tracker.js";

const NOT_READY_STATUS = 503;
const RETRY_AFTER_SECONDS = "1";
const FAILED_RETRY_AFTER_SECONDS = "10";

/** The endpoint for health checks. */
export const health: RouteFactory = ({ options, tracker }) => [
  {
    method: "GET",
    path: "/health",
    summary: "Whether the server is ready: 200, or 503 while it loads, warms up or stops; needs no key",
    needsKey: false,
    healthCheck: true,
    handle: (_, reply) => {
      if (tracker.stopping) {
        const { status, retryAfterSeconds } = stoppingError();
        return reply.code(status).header("retry-after", String(retryAfterSeconds)).send({ status: "stopping" });
      }
      const { status: readiness } = options.readiness;
      if (readiness !== "ok")
        return reply.code(NOT_READY_STATUS).header("retry-after", RETRY_AFTER_SECONDS).send({ status: readiness });
      const states = options.pool.list().map(({ state }) => state);
      if (!states.includes("failed")) return reply.send({ status: "ok" });
      // A load balancer sends no requests to an unhealthy server, so no request would load the model again.
      options.pool.recover();
      if (states.some((state) => state !== "failed")) return reply.send({ status: "degraded" });
      return reply.code(NOT_READY_STATUS).header("retry-after", FAILED_RETRY_AFTER_SECONDS).send({ status: "failed" });
    },
  },
];
