import { describe, expect, it } from "vitest";
import { deepParts, deepShape, fillsDevice, isDeep } from "./deep-attention.js";
import { SPLIT_POSITIONS, splitsOf } from "./kv-layout.js";

const H200 = { sharedBytes: 227 << 10, multiprocessors: 132, copiesInBackground: true } as const;
const SMALL = { sharedBytes: 64 << 10, multiprocessors: 60, copiesInBackground: false } as const;
const QWEN = { heads: 32, kvHeads: 4, keyWidth: 128, valueWidth: 128 } as const;

describe("the shape of decode attention over long sequences", () => {
  it("has as many parts as the device runs blocks at once", () => {
    expect(deepShape("f16", QWEN, H200)).toEqual({
      defines: { WAVES: 4, STAGES: 3, TILE_POSITIONS: 16 },
      sharedBytes: 108_800,
      blocks: 4,
      mostParts: 66,
      wholeTokens: 198,
    });
    // Sums of wide heads leave room for one block; 16 query heads of a kv head are two blocks.
    expect(deepShape("f16", { heads: 16, kvHeads: 8, keyWidth: 256, valueWidth: 256 }, H200)?.mostParts).toBe(16);
    expect(deepShape("f16", { heads: 64, kvHeads: 4, keyWidth: 128, valueWidth: 128 }, H200)).toMatchObject({
      blocks: 8,
      mostParts: 33,
    });
  });

  it("fits the shared memory of every device", () => {
    for (const keyWidth of [16, 64, 80, 128, 256]) {
      for (const device of [H200, SMALL, { ...H200, sharedBytes: 99 << 10 }, { ...SMALL, sharedBytes: 160 << 10 }]) {
        const shape = deepShape("f16", { ...QWEN, keyWidth, valueWidth: keyWidth }, device);
        expect(shape?.sharedBytes).toBeLessThan(device.sharedBytes - 2048);
        expect(shape?.defines.STAGES === 1).toBe(!device.copiesInBackground);
      }
    }
  });

  it("is not for other caches, odd widths, wide heads and values in keys", () => {
    expect(deepShape("q8_0", QWEN, H200)).toBeUndefined();
    expect(deepShape("f32", QWEN, H200)).toBeUndefined();
    expect(deepShape("f16", { ...QWEN, valueWidth: 100 }, H200)).toBeUndefined();
    expect(deepShape("f16", { ...QWEN, keyWidth: 288 }, H200)).toBeUndefined();
    expect(deepShape("f16", { ...QWEN, valuesInKeys: true }, H200)).toBeUndefined();
  });
});

it("is taken alike by all steps of a bucket", () => {
  for (let splits = 1; splits <= 512; splits++) {
    const bucket = 2 ** Math.ceil(Math.log2(splits));
    for (const window of [undefined, 100, 1024, 4096]) {
      const operation = { ...QWEN, ...(window === undefined ? {} : { window }) };
      expect(isDeep(operation, splits)).toBe(isDeep(operation, bucket));
    }
  }
  const isDeepAt = (width: number, splits: readonly number[]): readonly boolean[] =>
    splits.map((count) => isDeep({ keyWidth: width, valueWidth: width }, count));
  expect(isDeepAt(64, [8, 9])).toEqual([false, true]);
  expect(isDeepAt(128, [16, 17])).toEqual([false, true]);
  expect(isDeepAt(256, [32, 33])).toEqual([false, true]);
});

it("is taken whole by steps of many sequences, none of them very long", () => {
  const shape = deepShape("f16", QWEN, H200);
  const isWhole = (tokens: number, splits: number): boolean | undefined =>
    shape && fillsDevice(shape, {}, { tokens, splits });
  expect([197, 198, 256].map((tokens) => isWhole(tokens, 2))).toEqual([false, true, true]);
  expect([1, 32, 33].map((splits) => isWhole(200, splits))).toEqual([true, true, false]);
  expect(shape && fillsDevice(shape, { window: 1024 }, { tokens: 200, splits: 100 })).toBe(true);
  const llama = deepShape("f16", { heads: 32, kvHeads: 8, keyWidth: 128, valueWidth: 128 }, H200);
  expect([64, 98, 99, 128].map((tokens) => llama && fillsDevice(llama, {}, { tokens, splits: 3 }))).toEqual([
    false,
    false,
    true,
    true,
  ]);
});

it("has no more parts than there is room for, and at least those that a kernel counts", () => {
  const shape = deepShape("f16", QWEN, H200);
  if (shape === undefined) throw new Error("no shape");
  for (const positions of [1025, 4096, 4097, 16_384, 16_385, 100_000]) {
    const splits = splitsOf(positions);
    const parts = deepParts(shape, splits);
    expect(parts).toBeLessThanOrEqual(splits);
    // deep_parts of kernels/attention/deep-parts.h
    const length = Math.max(256, Math.ceil(Math.ceil(positions / shape.mostParts) / 64) * 64);
    expect(parts).toBeGreaterThanOrEqual(Math.ceil(positions / length));
    expect(parts * length).toBeGreaterThanOrEqual(Math.min(positions, splits * SPLIT_POSITIONS));
  }
});
