// Several pieces of work of one request side by side, a few at a time: the engine's queue is for all requests. A queue
// that is full refuses a request as a whole, by its first piece; the others wait for room until the request's time is up,
// so that nothing that is done is thrown away before.

import { setTimeout as pause } from "node:timers/promises";
import { ServingError } from "../../errors.js";
import type { Work } from "../http/request-tracker.js";

const ITEMS_AT_ONCE = 8;
/** Where the refusal says nothing. */
const DEFAULT_WAIT_MS = 1000;
/** What a refusal says is a guess, and room may come earlier. */
const LONGEST_WAIT_MS = 5000;

/** Results in order. The first failure is thrown when nothing runs any more; it cancels the work, so that the others end soon. */
export async function mapAtOnce<Item, Result>(
  work: Pick<Work, "cancel">,
  items: readonly Item[],
  run: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = Array.from({ length: items.length });
  const failures: unknown[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const index = next++;
      try {
        results[index] = await run(items[index] as Item, index);
      } catch (error) {
        failures.push(error);
        work.cancel(error instanceof Error ? error : new Error("something failed", { cause: error }));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(ITEMS_AT_ONCE, items.length) }, lane));
  if (failures.length > 0) throw failures[0];
  return results;
}

export interface Patience {
  /** Asked when the queue was full. */
  readonly mayRepeat: () => boolean;
  readonly signal: AbortSignal;
  /** By the process's clock (performance.now). */
  readonly deadlineMs: number;
}

/** Tries again when there may be room, the last time at the deadline. */
export async function untilRoom<Result>(
  attempt: () => Promise<Result>,
  { mayRepeat, signal, deadlineMs }: Patience,
): Promise<Result> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof ServingError) || error.code !== "SERVING_QUEUE_FULL" || !mayRepeat()) throw error;
      const { retryAfterMs } = error.details;
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) throw error;
      const askedMs = typeof retryAfterMs === "number" ? retryAfterMs : DEFAULT_WAIT_MS;
      await pause(Math.min(askedMs, leftMs, LONGEST_WAIT_MS), undefined, { signal });
    }
  }
}
