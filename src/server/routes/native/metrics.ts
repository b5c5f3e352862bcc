// GET /metrics: the server's counts and times in the text format of Prometheus.

import type { RouteFactory } from "../../completion/route-context.js";

/** The endpoint for metrics. */
export const metrics: RouteFactory = ({ metrics: counted }) => [
  {
    method: "GET",
    path: "/metrics",
    summary: "Counts and times, for Prometheus",
    handle: async (_, reply) => reply.type(counted.contentType).send(await counted.text()),
  },
];
