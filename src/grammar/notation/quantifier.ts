// How often a part is repeated, in the marks that regular expressions and grammars share.

import { GRAMMAR_LIMITS, grammarLimit } from "../limits.js";

/** The fewest times and the most, which may be Infinity. */
export type Times = readonly [number, number];

export const ONCE: Times = [1, 1];

const MARKS: ReadonlyMap<string, Times> = new Map([
  ["*", [0, Infinity]],
  ["+", [1, Infinity]],
  ["?", [0, 1]],
]);

/** Of "*", "+" or "?". */
export function markTimes(mark: string | undefined): Times | undefined {
  return mark === undefined ? undefined : MARKS.get(mark);
}

/** Of "{least}", "{least,}" or "{least,most}": `rest` is what stands from the comma on, as far as it is there. */
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
