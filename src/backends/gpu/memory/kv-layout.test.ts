import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { AttentionOperation } from "../../../graph/operation.js";
import { stateSlotLayout } from "./state-layout.js";
import { kvShapeOf } from "../../../graph/program.js";
import type { KvCacheOptions } from "../../contract.js";
import {
  kvDefines,
  kvLayerPlace,
  kvLayout,
  packStretches,
  partialFloats,
  SPLIT_POSITIONS,
  splitRows,
  splitsOf,
  stepCacheAt,
  supportsAttention,
  supportsGpuKvCache,
  supportsRope,
  TILE_TOKENS,
  visibleSplits,
} from "./kv-layout.js";

const LLAMA: KvCacheOptions = {
  type: "f16",
  layers: 32,
  kvHeads: 8,
  keyWidth: 128,
  valueWidth: 128,
  blocks: 128,
  blockTokens: 32,
};
const ATTENTION: AttentionOperation = {
  kind: "attention",
  layer: 0,
  query: 0,
  out: 1,
  heads: 32,
  kvHeads: 8,
  keyWidth: 128,
  valueWidth: 128,
  scale: 1,
};

const kernel = (name: string): string => readFileSync(new URL(`../../../../kernels/${name}`, import.meta.url), "utf8");

describe("the cache's layout", () => {
  it("has no gaps where planes are even", () => {
    const { layers, sizeBytes } = kvLayout(LLAMA);
    const blockBytes = 8 * 32 * 128 * 2;
    expect(layers[0]).toEqual([
      { byteOffset: 0, blockBytes },
      { byteOffset: 8_388_608, blockBytes },
    ]);
    expect(layers[1][0].byteOffset).toBe(16_777_216);
    expect(sizeBytes).toBe(32 * 16_777_216);
  });

  it("keeps scales in planes of their own", () => {
    const rows = 128 * 8 * 32;
    const { layers, sizeBytes } = kvLayout({ ...LLAMA, type: "q8_0", valueWidth: 64 });
    expect(layers[0].map(({ byteOffset }) => byteOffset)).toEqual([
      0,
      rows * 128,
      rows * (128 + 8),
      rows * (128 + 8 + 64),
    ]);
    expect(sizeBytes).toBe(32 * rows * (128 + 8 + 64 + 4));
  });

  it.each([
    ["f32", 20, 7, 20 * 4, 8 * 4],
    ["f16", 20, 7, 24 * 2, 8 * 2],
  ] as const)(
    "rounds rows of %s to whole pieces, planes to 256 bytes",
    (type, keyWidth, valueWidth, keyBytes, valueBytes) => {
      const options = { type, layers: 1, kvHeads: 3, keyWidth, valueWidth, blocks: 5, blockTokens: 1 };
      const { layers, sizeBytes } = kvLayout(options);
      const rounded = (bytes: number): number => Math.ceil(bytes / 256) * 256;
      expect(layers[0][1].byteOffset).toBe(rounded(15 * keyBytes));
      expect(sizeBytes).toBeGreaterThanOrEqual(rounded(15 * keyBytes) + rounded(15 * valueBytes));
    },
  );

  it.each(["f32", "f16", "q8_0"] as const)(
    "has whole blocks of %s one after the other in planes that do not meet",
    (type) => {
      const shape = { kvHeads: 3, keyWidth: 128, valueWidth: 96 };
      // Layers of other shapes before, between and behind, one without values.
      const kv = kvShapeOf([{ ...shape, valueWidth: 32 }, shape, { kvHeads: 1, keyWidth: 576, valueWidth: 0 }, shape]);
      for (const blocks of [1, 5, 63]) {
        const { layers, sizeBytes } = kvLayout({ ...kv, type, blocks, blockTokens: 7 });
        expect(layers.map(({ length }) => length)).toEqual(type === "q8_0" ? [4, 4, 2, 4] : [2, 2, 1, 2]);
        const planes = layers.flat();
        for (const [index, { byteOffset, blockBytes }] of planes.entries()) {
          expect(byteOffset % 256).toBe(0);
          expect(byteOffset + blocks * blockBytes).toBeLessThanOrEqual(planes[index + 1]?.byteOffset ?? sizeBytes);
        }
        expect(layers[1].reduce((total, { blockBytes }) => total + blockBytes, 0)).toBe(
          3 * 7 * (128 + 96) * { f32: 4, f16: 2, q8_0: 1 + 2 / 32 }[type],
        );
      }
    },
  );

  it("places a layer as kernels do, from the blocks of the layers before it", () => {
    const kv = kvShapeOf([
      { kvHeads: 1, keyWidth: 20, valueWidth: 7 },
      { kvHeads: 3, keyWidth: 64, valueWidth: 64 },
    ]);
    const place = kvLayerPlace({ ...kv, type: "f16", blockTokens: 5 }, 1);
    expect(place).toEqual({ bytes: 5 * (48 + 16), paddingBytes: 1280 });
    const { layers } = kvLayout({ ...kv, type: "f16", blockTokens: 5, blocks: 11 });
    expect(layers[1][0].byteOffset).toBe(Math.ceil((11 * place.bytes) / 256) * 256 + place.paddingBytes);
    expect(kvLayerPlace(LLAMA, 3)).toEqual({ bytes: 3 * 2 * 8 * 32 * 128 * 2, paddingBytes: 0 });
  });

  it("puts cache groups one after the other, each with its own number of blocks", () => {
    const groups = [{ layers: [0, 2] }, { layers: [1, 3], window: 64 }];
    const options = { ...LLAMA, layers: 4, groups, blocks: 10, blocksByGroup: [10, 3] };
    const blockBytes = 8 * 32 * 128 * 2;
    const { layers, groups: places, sizeBytes } = kvLayout(options);
    expect(places.map(({ byteOffset, blocks }) => [byteOffset, blocks])).toEqual([
      [0, 10],
      [40 * blockBytes, 3],
    ]);
    expect(layers.map(([{ byteOffset }]) => byteOffset / blockBytes)).toEqual([0, 40, 20, 46]);
    expect(sizeBytes).toBe(52 * blockBytes);
    expect([0, 1, 2, 3].map((layer) => kvLayerPlace(options, layer).bytes / blockBytes)).toEqual([0, 0, 2, 2]);
    expect(stepCacheAt(1000n, options)).toEqual({
      blockTokens: 32,
      groups: [
        { address: 1000n, blocks: 10 },
        { address: 1000n + 40n * BigInt(blockBytes), blocks: 3 },
      ],
    });
  });

  it("puts recurrent states behind the groups, slot after slot", () => {
    const options = { ...LLAMA, states: [100, 4096], stateSlots: 3 };
    const { statesOffset, sizeBytes } = kvLayout(options);
    expect(stateSlotLayout(options.states)).toEqual({ byteOffsets: [0, 512], slotBytes: 512 + 4 * 4096 });
    expect(statesOffset).toBe(kvLayout(LLAMA).sizeBytes);
    expect(sizeBytes).toBe(statesOffset + 3 * (512 + 4 * 4096));
    expect(stepCacheAt(1000n, options).states).toBe(1000n + BigInt(statesOffset));
    expect(stepCacheAt(1000n, LLAMA).states).toBeUndefined();
  });

  it("names types by the numbers that kernels know", () => {
    expect(kvDefines(LLAMA, { type: "q8_0", blockTokens: 16 })).toEqual({
      KV_TYPE: 2,
      KEY_WIDTH: 128,
      VALUE_WIDTH: 128,
      BLOCK_TOKENS: 16,
    });
  });
});

describe("what the kernels say themselves", () => {
  it("agrees with the constants here", () => {
    expect(kernel("device/step.h")).toContain(`kSplitPositions = ${SPLIT_POSITIONS};`);
    expect(kernel("attention/kv-cache.h")).toContain("kPlaneAlignment = 256;");
    expect(kernel("attention/rows.h")).toContain("MOST_BLOCK_HEADS (WIDE_HEADS ? 8 : 16)");
    expect(kernel("attention/rows.h")).toContain("WIDE_HEADS (KEY_WIDTH > 256 || VALUE_WIDTH > 256)");
    expect(kernel("attention/combine.hip")).toContain("COMBINED_COLUMNS (VALUE_WIDTH <= 256 ? VALUE_WIDTH : 128)");
    expect(kernel("attention/tiled.hip")).toContain("#define TILE_WAVES 4");
    expect(kernel("attention/tiled.hip")).toContain("#define TILE_POSITIONS 64");
    expect(kernel("attention/tiled.hip")).toContain("kTileParts = 4 / kWaves;");
    expect(TILE_TOKENS).toBe(4 * 16);
  });
});

describe("what is refused", () => {
  it("rejects heads that are too wide, uneven groups and odd rotations", () => {
    expect(supportsAttention(ATTENTION)).toBe(true);
    expect(supportsAttention({ ...ATTENTION, keyWidth: 576 })).toBe(true);
    expect(supportsAttention({ ...ATTENTION, keyWidth: 577 })).toHaveProperty("reason", expect.stringContaining("577"));
    expect(supportsAttention({ ...ATTENTION, valuesInKeys: true })).toHaveProperty("reason");
    expect(supportsAttention({ ...ATTENTION, heads: 30 })).toHaveProperty("reason");
    const rope = { kind: "rope", input: 0, heads: 1, headWidth: 64, style: "halves", rope: 0, out: 1 } as const;
    expect(supportsRope({ ...rope, rotaryWidth: 64 })).toBe(true);
    expect(supportsRope({ ...rope, rotaryWidth: 63 })).toHaveProperty("reason");
    expect(supportsRope({ ...rope, rotaryWidth: 66 })).toHaveProperty("reason");
    expect(supportsRope({ ...rope, rotaryWidth: 32, firstColumn: 32 })).toBe(true);
    expect(supportsRope({ ...rope, rotaryWidth: 34, firstColumn: 32 })).toHaveProperty("reason");
  });

  it("rejects q8_0 over uneven heads, and caches whose rows 32 bits cannot count", () => {
    expect(supportsGpuKvCache(LLAMA)).toBe(true);
    expect(supportsGpuKvCache({ ...LLAMA, type: "q8_0", keyWidth: 80 })).toHaveProperty(
      "reason",
      expect.stringContaining("80"),
    );
    expect(supportsGpuKvCache({ ...LLAMA, blocks: 2 ** 24 })).toHaveProperty("reason");
  });
});

describe("sizes of launches", () => {
  it("counts splits, blocks of heads and partial results", () => {
    expect([1, 128, 129, 4096].map(splitsOf)).toEqual([1, 1, 2, 32]);
    expect(splitRows(ATTENTION)).toBe(8);
    expect(splitRows({ ...ATTENTION, heads: 71, kvHeads: 1 })).toBe(5);
    expect(splitRows({ ...ATTENTION, heads: 20, kvHeads: 1, keyWidth: 576, valueWidth: 512 })).toBe(3);
    expect(partialFloats(3, 2, ATTENTION)).toEqual({ values: 3 * 32 * 2 * 128, weights: 3 * 32 * 2 * 2 });
  });

  it("launches no more splits than a window can reach", () => {
    const splits = (window: number | undefined, of: number): number =>
      visibleSplits(window === undefined ? {} : { window }, of);
    expect(splits(undefined, 9)).toBe(9);
    expect([1, 2, 129, 130, 4096].map((window) => splits(window, 100))).toEqual([1, 1, 2, 2, 32]);
    expect(splits(4096, 3)).toBe(3);
    expect(visibleSplits({ chunk: 8192 }, 1000)).toBe(64);
    expect(visibleSplits({ window: 130, chunk: 8192 }, 1000)).toBe(2);
  });

  it("keeps stretches to twice the bits of f32", () => {
    const [high, low] = packStretches([1 / 3]);
    expect(Math.abs(high + low - 1 / 3)).toBeLessThan(1e-15);
  });
});
