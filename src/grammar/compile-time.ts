// The time limit for compiling a grammar, checked wherever the work may grow with the request. The clock is global to
// the thread, which compiles one grammar at a time.

import { GrammarError } from "../errors.js";

/** Calls between two checks of the clock. */
const STEPS = 256;

let until = Infinity;
let allowedMs = Infinity;
let steps = 0;

/** Compiles a grammar; throws a GrammarError when the time is over. */
export function withinTime<Result>(timeMs: number, compile: () => Result): Result {
  until = performance.now() + timeMs;
  allowedMs = timeMs;
  try {
    return compile();
  } finally {
    until = Infinity;
  }
}

/** Checks the time limit; called regularly by everything that may take long. */
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
