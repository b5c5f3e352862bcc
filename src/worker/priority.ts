// How much of a busy machine a thread takes.

import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";

/** A tenth of the share that a thread of usual priority has. */
const BACKGROUND_NICENESS = 10;

/**
 * To be called in a thread: from here on it leaves a busy processor to others, such as those who compute. Only Linux can
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
