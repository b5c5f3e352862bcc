// Garbage collection in a worker thread. V8 waits until a heap has about doubled, which takes an idle thread a quarter
// of an hour: with many threads, most of their memory would be garbage. So each checks its heap at intervals.

import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const LOOK_MS = 30_000;
/** The least garbage that is worth a collection, which takes about 15 ms. */
const WORTHWHILE_BYTES = 4 * 2 ** 20;
const MOST_TRIES = 100;

/** Runs a full garbage collection of this thread's heap. */
export const collectGarbage = findCollector();

/** Starts the checks; call it once in a worker thread. */
export function startGarbageChecks(): void {
  const used = (): number => getHeapStatistics().used_heap_size;
  let kept = used();
  setInterval(() => {
    if (used() - kept < WORTHWHILE_BYTES) return;
    collectGarbage();
    kept = used();
  }, LOOK_MS).unref();
}

/**
 * V8's collector, which is behind a flag of the whole process that is read when a context is created; another thread
 * may reset it just then.
 */
function findCollector(): () => void {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("globalThis.gc") as (() => void) | undefined;
    setFlagsFromString("--no-expose-gc");
    if (collect !== undefined) return collect;
  }
  return () => {};
}
