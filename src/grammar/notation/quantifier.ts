// Quantifiers, which regular expressions and grammars share.

import { GRAMMAR_LIMITS, grammarLimit } from "../limits.js";

/** The least and the greatest number of repetitions, which may be Infinity. */
export type Times = readonly [number, number];

/** The repetitions of a part without a quantifier. */
export const ONCE: Times = [1, 1];

const MARKS: ReadonlyMap<string, Times> = new Map([
  ["*", [0, Infinity]],
  ["+", [1, Infinity]],
  ["?", [0, 1]],
]);

/** The repetitions of "*", "+" or "?". */
export function markTimes(mark: string | undefined): Times | undefined {
  return mark === undefined ? undefined : MARKS.get(mark);
}

/**
 * The repetitions of "{least}", "{least,}" or "{least,most}"; `rest` is the part from the comma on, if there is one.
 */
export function countedTimes(
  least: string,
  rest: string | undefined,
  most: string | undefined,
  place: () => string,
): Times {
  const min = Number(least);
  const max = rest === undefined ? min : (most ?? "") === "" ? Infinity : Number(most);
  if ((max === Infinity ? min : max) > GRAMMAR_LIMITS.repetitions)
    throw grammarLimit(place(), "repetitions", "repetitions");
  return [min, max];
}
