import { describe, expect, it } from "vitest";
import { type GemvRequest, gemvShape, stagedBytes, TOKEN_BUCKETS } from "./gemv-shape.js";

const H200 = { waveSize: 32, multiprocessors: 132, floats: false } as const;

describe("gemvShape", () => {
  it("covers every row of every matrix", () => {
    for (const waveSize of [32, 64] as const) {
      for (const rows of [[1], [3], [512], [4096, 1024, 1024], [128_256], [7, 5]]) {
        for (const width of [32, 256, 896, 4096, 14_336]) {
          const { defines, passes, blocks } = gemvShape({ ...H200, rows, width, form: "plain", waveSize }, 1);
          const blockRows = passes * (defines.THREADS / waveSize / defines.SPLIT) * defines.ROWS;
          expect(Number.isInteger(blockRows)).toBe(true);
          for (const [index, count] of rows.entries()) {
            expect(blocks[index] * blockRows).toBeGreaterThanOrEqual(count);
            expect((blocks[index] - 1) * blockRows).toBeLessThan(count);
          }
        }
      }
    }
  });

  it("streams four rows of gate and of up together on cards that are short of issue slots", () => {
    const gated = { ...H200, rows: [14_336], width: 4096, form: "gated to quantized rows" } as const;
    const rowsOf = (waveSize: 32 | 64, multiprocessors: number, rows = 14_336): number =>
      gemvShape({ ...gated, rows: [rows], waveSize, multiprocessors }, 1).defines.ROWS;
    expect([rowsOf(64, 304), rowsOf(64, 256), rowsOf(64, 120), rowsOf(32, 256)]).toEqual([4, 4, 2, 2]);
    expect(rowsOf(64, 304, 512)).toBe(2);
  });

  it("cuts a matrix alike for every number of tokens", () => {
    for (const width of [896, 4096, 28_672]) {
      const request: GemvRequest = { ...H200, rows: [896], width, form: "plain" };
      const splits = TOKEN_BUCKETS.map((tokens) => gemvShape(request, tokens).defines.SPLIT);
      expect(new Set(splits).size).toBe(1);
    }
  });

  it("gives a block the 32 rows that share a scale where it rounds", () => {
    for (const waveSize of [32, 64] as const) {
      for (const rows of [64, 4864, 14_336]) {
        const { defines, passes, blocks } = gemvShape(
          { ...H200, rows: [rows], width: 4096, form: "gated to quantized rows", waveSize },
          1,
        );
        expect(passes * (defines.THREADS / waveSize / defines.SPLIT) * defines.ROWS).toBe(32);
        expect(blocks[0] * 32).toBe(rows);
      }
    }
  });

  it("stages inputs where a block may have the memory", () => {
    const request: GemvRequest = { ...H200, rows: [4096], width: 4096, form: "plain" };
    expect(gemvShape(request, 1)).toMatchObject({ defines: { STAGED: 1 }, sharedBytes: 4096 + 4096 * 0.375 });
    expect(gemvShape({ ...request, width: 14_336 }, 8)).toMatchObject({ defines: { STAGED: 0 }, sharedBytes: 0 });
    expect(gemvShape({ ...request, floats: true }, 1)).toMatchObject({ defines: { STAGED: 0 }, sharedBytes: 0 });
    expect(stagedBytes(1, 32)).toBe(64 + 12);
  });

  it("splits rows among waves only where they are few and long", () => {
    expect(gemvShape({ ...H200, rows: [4096], width: 14_336, form: "plain" }, 1).defines).toMatchObject({
      ROWS: 2,
      SPLIT: 2,
    });
    expect(gemvShape({ ...H200, rows: [4096], width: 4096, form: "plain" }, 1).defines).toMatchObject({
      ROWS: 2,
      SPLIT: 1,
    });
    expect(gemvShape({ ...H200, rows: [512], width: 8192, form: "plain" }, 1).defines).toMatchObject({
      ROWS: 1,
      SPLIT: 4,
    });
    expect(gemvShape({ ...H200, rows: [896], width: 896, form: "plain" }, 1).defines.SPLIT).toBe(1);
    expect(gemvShape({ ...H200, rows: [128_256], width: 4096, form: "plain" }, 1).passes).toBeGreaterThan(4);
  });
});
