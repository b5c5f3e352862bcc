import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TILE_TOKEN_COUNTS, type GemmRequest, gemmShape, isGemmShape, waveCount } from "./gemm-shape.js";

const H200: Omit<GemmRequest, "rows" | "width"> = { gated: false, multiprocessors: 132, kind: "cuda", mostBlocks: 528 };

describe("gemmShape", () => {
  it("splits rows over more blocks where there are few of them", () => {
    expect(gemmShape({ ...H200, rows: [1024], width: 4096 }, 16, 16).splits).toBeGreaterThan(2);
    expect(gemmShape({ ...H200, rows: [28_672], width: 4096 }, 16, 16).splits).toBe(1);
    expect(gemmShape({ ...H200, rows: [1024], width: 4096 }, 128, 4096).splits).toBe(1);
  });

  it("cuts blocks to the number of multiprocessors", () => {
    const gateAndUp = gemmShape({ ...H200, rows: [14_336], width: 4096, gated: true }, 64, 64);
    expect(gateAndUp).toMatchObject({ waves: { halves: 2, rows: 7, depth: 1 }, blocks: 128, splits: 1 });
    const down = gemmShape({ ...H200, rows: [4096], width: 14_336 }, 64, 64);
    expect(down).toMatchObject({ waves: { rows: 16, depth: 1 }, blocks: 16, splits: 8 });
  });

  it("gives waves of byte products 16 rows each", () => {
    const request: GemmRequest = { ...H200, kind: "hip", rows: [14_336], width: 4096, gated: true, isInt8: true };
    for (const tile of TILE_TOKEN_COUNTS) {
      const { waves, sharedBytes } = gemmShape(request, tile, tile);
      expect(waves.halves).toBe(1);
      expect(waves.rows % 2).toBe(0);
      expect(waveCount(waves)).toBeLessThanOrEqual(16);
      expect(sharedBytes).toBeLessThanOrEqual(48 << 10);
    }
    expect(isGemmShape(request, 64, { halves: 2, rows: 2, depth: 1, splits: 1 })).toBe(false);
  });

  it("covers all rows and tokens, stays within its memory, and within what a block can share", () => {
    const counts = fc.array(fc.integer({ min: 1, max: 40_000 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(
        counts,
        fc.integer({ min: 1, max: 600 }),
        fc.constantFrom(...TILE_TOKEN_COUNTS),
        fc.integer({ min: 1, max: 4096 }),
        fc.boolean(),
        (rows, chunks, tile, tokens, gated) => {
          const { waves, blocks, tokenBlocks, splits, sharedBytes } = gemmShape(
            { ...H200, rows: gated ? [rows[0]] : rows, width: chunks * 32, gated },
            tile,
            tokens,
          );
          const blockRows = (waves.rows * waves.halves * 16) / (gated ? 2 : 1);
          expect(waveCount(waves)).toBeLessThanOrEqual(16);
          expect(blocks * blockRows).toBeGreaterThanOrEqual(
            gated ? rows[0] : rows.reduce((sum, count) => sum + count, 0),
          );
          expect(tokenBlocks * tile).toBeGreaterThanOrEqual(tokens);
          if (splits > 1) expect(blocks * tokenBlocks * splits).toBeLessThanOrEqual(H200.mostBlocks);
          expect(splits).toBeLessThanOrEqual(Math.max(1, chunks));
          expect(sharedBytes).toBeLessThanOrEqual(100 << 10);
        },
      ),
    );
  });

  it("asks for no more shared memory on AMD than every card has", () => {
    for (const tile of TILE_TOKEN_COUNTS)
      expect(
        gemmShape({ ...H200, kind: "hip", rows: [4096], width: 4096 }, tile, tile).sharedBytes,
      ).toBeLessThanOrEqual(48 << 10);
  });
});
