import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import { layoutByName } from "../../../quant/layout.js";
import { expertTile, hasFewSlots, maxTiles, reserveExpertOrder, type RoutedMatmul } from "./expert-tiles.js";
import { TILE_TOKEN_COUNTS } from "./gemm-shape.js";
import { Scratch } from "./scratch.js";

function routed(
  used: number,
  experts: number,
): { readonly operation: RoutedMatmul; readonly weight: TensorDescriptor } {
  const [inputs, matrixRows] = [64, 8];
  return {
    operation: {
      kind: "grouped-matmul",
      input: 0,
      routing: 1,
      weight: 0,
      slots: used,
      matrixRows,
      inputStride: 0,
      firstOutput: 0,
      outputs: matrixRows,
      weighted: false,
      out: 2,
    },
    weight: {
      name: "experts",
      layout: layoutByName("F32"),
      shape: [inputs, matrixRows, experts],
      elements: inputs * matrixRows * experts,
      sizeBytes: inputs * matrixRows * experts * 4,
    },
  };
}

const offset = (place: { readonly space: string; readonly byteOffset?: number }): number => place.byteOffset ?? -1;

describe("hasFewSlots", () => {
  it.each([
    ["16 sequences of gpt-oss-20b", 16, 4, 32, true],
    ["16 sequences of Qwen3-30B-A3B", 16, 8, 128, true],
    ["64 sequences of Qwen3-30B-A3B", 64, 8, 128, false],
    ["32 sequences of Qwen3.5-35B-A3B", 32, 8, 256, true],
    ["64 sequences of Qwen3.5-35B-A3B", 64, 8, 256, false],
  ])("of %s", (_, tokens, used, experts, expected) => {
    expect(hasFewSlots(tokens, used, experts)).toBe(expected);
  });
});

describe("expertTile", () => {
  it("grows with the slots that an expert has on average", () => {
    const tile = (tokens: number): number => TILE_TOKEN_COUNTS[expertTile(tokens, 8, 128)];
    expect([16, 64, 128, 256, 512, 4096].map(tile)).toEqual([16, 16, 16, 32, 64, 128]);
  });
});

describe("maxTiles", () => {
  it("is enough for every choice of a router", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...TILE_TOKEN_COUNTS),
        fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 64 }),
        (tile, counts) => {
          const slots = counts.reduce((sum, count) => sum + count, 0);
          const tiles = counts.reduce((sum, count) => sum + Math.ceil(count / tile), 0);
          expect(maxTiles(slots, 1, counts.length, tile)).toBeGreaterThanOrEqual(tiles);
        },
      ),
    );
  });

  it("is no more than the slots, and what one expert for all of them or an expert for each needs", () => {
    expect(maxTiles(4, 2, 128, 16)).toBe(8);
    expect(maxTiles(4096, 1, 1, 128)).toBe(32);
    expect(maxTiles(4096, 8, 128, 128)).toBe(383);
  });
});

describe("reserveExpertOrder", () => {
  it("has room for the tiles of every step", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 32 }),
        fc.integer({ min: 1, max: 512 }),
        fc.integer({ min: 9, max: 4096 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (used, experts, maxTokens, share) => {
          const scratch = new Scratch();
          const region = reserveExpertOrder(scratch, [routed(used, experts)], { maxTokens, maxOutputs: 1 });
          const tokens = Math.max(1, Math.round(share * maxTokens));
          const tile = TILE_TOKEN_COUNTS[expertTile(tokens, used, experts)];
          const room = offset(region.tileCount) - offset(region.tiles);
          expect(room).toBeGreaterThanOrEqual(maxTiles(tokens, used, experts, tile) * 12);
          expect(offset(region.tiles) - offset(region.slots)).toBeGreaterThanOrEqual(tokens * used * 4);
        },
      ),
    );
  });

  it("takes next to nothing without experts", () => {
    const scratch = new Scratch();
    reserveExpertOrder(scratch, [], { maxTokens: 4096, maxOutputs: 256 });
    expect(scratch.sizeBytes).toBeLessThan(1024);
  });
});
