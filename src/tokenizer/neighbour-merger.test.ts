import fc from "fast-check";
import { expect, test } from "vitest";
import { NeighbourMerger, NEVER, ROW_END } from "./neighbour-merger.js";

/** Pairs of letters with a rank merge into an upper-case letter; ranks repeat, so that ties occur. */
const RANKS: Readonly<Record<string, number>> = {
  ab: 3,
  ba: 1,
  aa: 3,
  bb: 2,
  Aa: 0,
  aA: 5,
  AA: 1,
  Ab: 4,
  BA: 2,
  bB: 3,
  CB: 1,
};
const MERGED: Readonly<Record<string, string>> = {
  ab: "A",
  ba: "B",
  aa: "A",
  bb: "C",
  Aa: "B",
  aA: "A",
  AA: "C",
  Ab: "B",
  BA: "A",
  bB: "b",
  CB: "C",
};

function mergeWith(row: string): string {
  const symbols = [...row];
  const merger = new NeighbourMerger({
    priorityOf: (left, right) => RANKS[`${symbols[left]}${symbols[right]}`] ?? NEVER,
    join: (left, right) => {
      symbols[left] = MERGED[`${symbols[left]}${symbols[right]}`] as string;
    },
  });
  const nexts = merger.merge(symbols.length);
  let merged = "";
  for (let place = 0; place !== ROW_END; place = nexts[place] as number) merged += symbols[place];
  return merged;
}

/** The definition: find the lowest, leftmost pair, merge it, start again. */
function mergePlainly(row: string): string {
  const symbols = [...row];
  for (;;) {
    let best = -1;
    let lowest = NEVER;
    for (let left = 0; left + 1 < symbols.length; left++) {
      const rank = RANKS[`${symbols[left]}${symbols[left + 1]}`] ?? NEVER;
      if (rank < lowest) [best, lowest] = [left, rank];
    }
    if (best < 0) return symbols.join("");
    symbols.splice(best, 2, MERGED[`${symbols[best]}${symbols[best + 1]}`] as string);
  }
}

// 32 is where scanning gives way to a heap.
test.each([1, 2, 8, 32, 33, 300])("merges rows of up to %i symbols as the definition says", (length) => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("a", "b", "A", "x"), { minLength: 1, maxLength: length, size: "max" }),
      (letters) => {
        const row = letters.join("");
        expect(mergeWith(row)).toBe(mergePlainly(row));
      },
    ),
  );
});
