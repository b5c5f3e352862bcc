// A thread's garbage. V8 lets it lie until a heap has about doubled, and a thread with little work takes a quarter of an
// hour for that: with many threads, most of what they hold would be garbage. So it is looked at now and then.

import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const LOOK_MS = 30_000;
/** A collection takes some 15 ms; with less than this it is not worth that. */
const WORTHWHILE_BYTES = 4 * 2 ** 20;
const MOST_TRIES = 100;

export const collectGarbage = findCollector();

/** To be called once, in a thread. */
export function collectNowAndThen(): void {
  const used = (): number => getHeapStatistics().used_heap_size;
  let kept = used();
  setInterval(() => {
    if (used() - kept < WORTHWHILE_BYTES) return;
    collectGarbage();
    kept = used();
  }, LOOK_MS).unref();
}

/** V8 has it behind a flag of the whole process, which is read when a context is made; another thread may take it back just then. */
function findCollector(): () => void {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("globalThis.gc") as (() => void) | undefined;
    setFlagsFromString("--no-expose-gc");
    if (collect !== undefined) return collect;
  }
  return () => {};
}
