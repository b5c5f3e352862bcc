import { describe, expect, it } from "vitest";
import { canBeNormed, normedShape } from "./fused-norm-shape.js";
import type { GemvRequest } from "./gemv-shape.js";

const H200 = { waveSize: 32, multiprocessors: 132, floats: false } as const;

describe("normedShape", () => {
  it("gives every column of a row to a thread, eight quads each at most", () => {
    for (const waveSize of [32, 64] as const) {
      for (const form of ["plain", "gated", "gated to quantized rows"] as const) {
        for (const width of [32, 896, 2048, 4096, 4128, 5120, 8192]) {
          const { defines, sharedBytes } = normedShape({ ...H200, rows: [4096], width, form, waveSize }, 1);
          expect(defines.NORMED * defines.THREADS * 4).toBeGreaterThanOrEqual(width);
          expect((defines.NORMED - 1) * defines.THREADS * 4).toBeLessThan(width);
          expect(defines.NORMED).toBeLessThanOrEqual(8);
          expect(defines.STAGED).toBe(1);
          expect(sharedBytes).toBeLessThanOrEqual(46 << 10);
        }
      }
    }
  });

  it("covers every row in blocks of either size", () => {
    for (const rows of [[3], [4096, 1024, 1024], [512]]) {
      const { defines, passes, blocks } = normedShape({ ...H200, rows, width: 4096, form: "plain" }, 1);
      const blockRows = passes * (defines.THREADS / 32 / defines.SPLIT) * defines.ROWS;
      for (const [index, count] of rows.entries()) expect(blocks[index]).toBe(Math.ceil(count / blockRows));
    }
  });

  it("makes fewer and larger blocks where there would be many", () => {
    const request: GemvRequest = { ...H200, rows: [4096, 1024, 1024], width: 4096, form: "plain" };
    expect(normedShape(request, 1).defines.THREADS).toBe(256);
    expect(normedShape({ ...request, rows: [512] }, 1).defines.THREADS).toBe(128);
    expect(normedShape({ ...request, rows: [14_336], form: "gated to quantized rows" }, 1)).toMatchObject({
      defines: { THREADS: 128 },
      blocks: [448],
    });
  });

  it("refuses rows that registers do not hold or that are no whole blocks", () => {
    expect([32, 896, 4096, 8192].map(canBeNormed)).toEqual([true, true, true, true]);
    expect([16, 100, 8224, 14_336].map(canBeNormed)).toEqual([false, false, false, false]);
  });
});
