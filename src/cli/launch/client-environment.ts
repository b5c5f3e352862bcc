// The environment that a client is started with: the user's own, with the client's settings.

import { API_KEYS_VARIABLE } from "../serve/api-keys.js";
import type { ClientSettings } from "./client-table.js";

const NO_PROXY_VARIABLES = ["NO_PROXY", "no_proxy"] as const;

/** The environment with the changes of a client; its requests to the server go through no proxy. */
export function changedEnvironment(
  inherited: NodeJS.ProcessEnv,
  changes: ClientSettings["environment"],
  url: string,
): NodeJS.ProcessEnv {
  const { hostname } = new URL(url);
  const direct = NO_PROXY_VARIABLES.map((name) => [name, withHost(inherited[name], hostname)] as const);
  const changed = {
    ...inherited,
    ...Object.fromEntries(direct),
    ...changes,
    // Those of all clients of a server; this one has been given its own.
    [API_KEYS_VARIABLE]: undefined,
  };
  return Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== undefined));
}

function withHost(list: string | undefined, hostname: string): string {
  return list === undefined || list === "" ? hostname : `${list},${hostname}`;
}
