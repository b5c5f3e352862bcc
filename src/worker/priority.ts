// How much of a busy machine a thread takes.

import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";

/** A tenth of the share that a thread of usual priority has. */
const BACKGROUND_NICENESS = 10;

/**
 * To be called in a thread: lowers its priority below that of the threads that compute. Only Linux can
 * do that for one thread; elsewhere nothing happens.
 */
export function yieldToOthers(): void {
  try {
    const [, thread] = /\/task\/(\d+)$/.exec(readlinkSync("/proc/thread-self")) ?? [];
    if (thread !== undefined) setPriority(Number(thread), BACKGROUND_NICENESS);
  } catch {
    // It is a courtesy.
  }
}
