// Endpoints of Ollama's API that change its own store of models. This server serves files that it is given when it starts.

import type { RefusedRoute, RouteFactory } from "../../completion/route-context.js";

/** Where models come from, for clients that ask for another one. */
export const GIVEN_AT_START = "this server serves the model files that it was started with (rocmforge serve -m FILE)";

function refused(method: RefusedRoute["method"], path: string, what: string): RefusedRoute {
  return {
    method,
    path,
    summary: `Refused: ${what}`,
    refusal: `${what} is not supported: ${GIVEN_AT_START}`,
  };
}

/** The endpoints that this server does not have. */
export const ollamaRefused: RouteFactory = () => [
  refused("POST", "/api/push", "uploading a model"),
  refused("POST", "/api/create", "creating a model"),
  refused("POST", "/api/copy", "copying a model"),
  refused("DELETE", "/api/delete", "deleting a model"),
  refused("POST", "/api/blobs/{digest}", "uploading a file"),
];
