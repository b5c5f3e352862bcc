// How long a grammar may be compiled: looked at wherever the work can grow with what was asked for. The clock belongs to
// the thread, which compiles one grammar at a time.

import { GrammarError } from "../errors.js";

/** Steps between two looks at the clock. */
const STEPS = 256;

let until = Infinity;
let allowedMs = Infinity;
let steps = 0;

/** Runs what compiles a grammar; it is refused with a GrammarError when the time is over. */
export function withinTime<Result>(timeMs: number, compile: () => Result): Result {
  until = performance.now() + timeMs;
  allowedMs = timeMs;
  try {
    return compile();
  } finally {
    until = Infinity;
  }
}

/** Called now and then by all that may take long. */
export function checkTime(): void {
  if (++steps % STEPS !== 0 || performance.now() < until) return;
  throw new GrammarError(
    "GRAMMAR_LIMIT",
    `[grammar] expected a grammar that is compiled within ${allowedMs} ms, found one that takes longer; simplify it`,
    {
      details: { limit: "compileMs", most: allowedMs },
    },
  );
}
