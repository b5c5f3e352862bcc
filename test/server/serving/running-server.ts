// A real server in this process: the embedded model on the CPU, the engine, chats and grammars behind real HTTP.

import { setTimeout as pause } from "node:timers/promises";
import { serve, type ServeOptions } from "../../../src/server/index.js";
import { readMetrics } from "./soak.js";

export const EMBEDDED = new URL("../../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;
/** The name that requests use. */
export const MODEL = "fable";

export function startServer(options: Partial<ServeOptions> = {}): ReturnType<typeof serve> {
  return serve({
    models: [{ name: MODEL, path: EMBEDDED }],
    model: { backend: "cpu" },
    port: 0,
    logLevel: "error",
    ...options,
  });
}

export interface Account {
  readonly running: number;
  readonly queued: number;
  readonly inFlight: number;
  /** Blocks that are neither free nor cached. */
  readonly heldBlocks: number;
}

export const IDLE: Account = { running: 0, queued: 0, inFlight: 0, heldBlocks: 0 };

/** What the server says of itself. */
export async function accountOf(url: string): Promise<Account> {
  const metrics = await readMetrics(url);
  return {
    running: metrics.of("rocmforge_requests_running"),
    queued: metrics.of("rocmforge_requests_queued"),
    inFlight: metrics.of("rocmforge_http_requests_in_flight"),
    heldBlocks:
      metrics.of("rocmforge_kv_blocks") -
      metrics.of("rocmforge_kv_blocks_free") -
      metrics.of("rocmforge_kv_blocks_cached"),
  };
}

/** Until nobody is at work; the test's own time limit ends it else. */
export async function untilIdle(url: string): Promise<Account> {
  for (;;) {
    const account = await accountOf(url);
    if (account.running + account.queued + account.inFlight === 0) return account;
    await pause(5);
  }
}
