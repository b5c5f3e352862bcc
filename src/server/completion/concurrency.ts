// Several prompts or inputs of one request at a time, but only a few: the engine's queue is for all requests. A full queue
// refuses a request by its first item; later items wait for room until the request's deadline, so that finished items are
// not thrown away.

import { setTimeout as pause } from "node:timers/promises";
import { ServingError } from "../../errors.js";
import type { InFlightRequest } from "../http/request-tracker.js";

const CONCURRENT_ITEMS = 8;
/** If the error gives no time. */
const DEFAULT_WAIT_MS = 1000;
/** The time that the error gives is an estimate; there may be room earlier. */
const LONGEST_WAIT_MS = 5000;

/** Results in order. The first failure cancels the request and is thrown once no item is running any more. */
export async function mapConcurrently<Item, Result>(
  request: Pick<InFlightRequest, "cancel">,
  items: readonly Item[],
  run: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = Array.from({ length: items.length });
  const failures: unknown[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const index = next++;
      try {
        results[index] = await run(items[index] as Item, index);
      } catch (error) {
        failures.push(error);
        request.cancel(error instanceof Error ? error : new Error("an item failed", { cause: error }));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENT_ITEMS, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
  return results;
}

/** When and for how long to retry. */
interface RetryOptions {
  /** Whether to try again after the queue was full. */
  readonly mayRetry: () => boolean;
  readonly signal: AbortSignal;
  /** By performance.now(). */
  readonly deadlineMs: number;
}

/** Retries while the engine's queue is full, the last time at the deadline. */
export async function untilQueueHasRoom<Result>(
  attempt: () => Promise<Result>,
  { mayRetry, signal, deadlineMs }: RetryOptions,
): Promise<Result> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof ServingError) || error.code !== "SERVING_QUEUE_FULL" || !mayRetry()) throw error;
      const { retryAfterMs } = error.details;
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) throw error;
      const waitMs = typeof retryAfterMs === "number" ? retryAfterMs : DEFAULT_WAIT_MS;
      await pause(Math.min(waitMs, leftMs, LONGEST_WAIT_MS), undefined, { signal });
    }
  }
}
