import { describe, expect, it } from "vitest";
import { familyOf } from "./kernel-families.js";
import {
  isSortedGemvShape,
  type SortedGemvParameters,
  type SortedGemvRequest,
  sortedGemvShape,
  usualSortedGemvParameters,
} from "./sorted-gemv-shape.js";

const REQUEST: SortedGemvRequest = { width: 2048, gated: true, types: [12, 12], waveSize: 32 };
const POOR = familyOf("sorted-gemv").poor as SortedGemvParameters;

describe("sortedGemvShape", () => {
  it("can be cut as the formulas say, and poorly, whatever the matrices", () => {
    for (const waveSize of [32, 64] as const) {
      for (const gated of [false, true]) {
        for (const type of [8, 12, 13, 14]) {
          for (const width of [32, 768, 2048]) {
            const request = { width, gated, types: [type, type], waveSize };
            const usual = usualSortedGemvParameters(request);
            expect(isSortedGemvShape(request, usual)).toBe(true);
            expect(isSortedGemvShape(request, POOR)).toBe(true);
            expect(sortedGemvShape(request, usual).passes * (128 / waveSize) * usual.rows).toBe(32);
          }
        }
      }
    }
  });

  it("keeps 32 rows a block, waves that have blocks of a row, and what registers hold", () => {
    const isValid = (changes: Partial<SortedGemvParameters>, request: Partial<SortedGemvRequest> = {}): boolean =>
      isSortedGemvShape({ ...REQUEST, ...request }, { ...POOR, ...changes });
    expect(isValid({ rows: 2, threads: 512 })).toBe(true);
    expect(isValid({ rows: 4, threads: 512 }, { gated: false })).toBe(false);
    expect(isValid({ rows: 4 })).toBe(false);
    expect(isValid({ rows: 4 }, { gated: false })).toBe(true);
    expect(isValid({ rows: 2, depth: 3 })).toBe(false);
    expect([2, 4].map((split) => isValid({ split }))).toEqual([true, false]);
    expect(sortedGemvShape(REQUEST, { rows: 2, split: 2, depth: 1, threads: 256 }).passes).toBe(4);
  });
});
