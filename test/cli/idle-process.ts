// How often the threads of a process wake up, by the kernel's own counts: a thread that polls or has a timer is seen here,
// whatever it is for.

import { readdirSync, readFileSync } from "node:fs";

const WINDOW_MS = 1000;
/** What a runtime does on its own after work (compiling, collecting garbage) ends within these. */
const WINDOWS = 8;

/** Times that threads of the process have gone to sleep, since each began. */
function sleeps(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, "utf8");
    return sum + Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(status)?.[1] ?? 0);
  }, 0);
}

/** Wake-ups of all threads in the quietest second of several; ends early once one has fewer than `enough`. */
export async function wakeUpsPerSecond(pid: number, enough: number): Promise<number> {
  let fewest = Infinity;
  for (let window = 0; window < WINDOWS && fewest >= enough; window++) {
    const before = sleeps(pid);
    await new Promise((resolve) => setTimeout(resolve, WINDOW_MS));
    fewest = Math.min(fewest, sleeps(pid) - before);
  }
  return fewest;
}
