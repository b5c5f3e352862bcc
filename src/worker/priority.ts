// The scheduling priority of a thread.

import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";

/** The niceness that gives a thread a tenth of a normal thread's share of a busy processor. */
const BACKGROUND_NICENESS = 10;

/**
 * Lowers the calling thread's priority below that of the threads that compute. Only Linux can do that for one thread;
 * elsewhere nothing happens.
 */
export function yieldToOthers(): void {
  try {
    const [, thread] = /\/task\/(\d+)$/.exec(readlinkSync("/proc/thread-self")) ?? [];
    if (thread !== undefined) setPriority(Number(thread), BACKGROUND_NICENESS);
  } catch {
    // Failing to lower the priority is harmless.
  }
}
