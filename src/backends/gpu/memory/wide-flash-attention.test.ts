import { describe, expect, it } from "vitest";
import { wideFlashShape } from "./wide-flash-attention.js";

const H200 = { architecture: "sm_90", sharedBytes: 227 << 10 };
const LATENT = { heads: 20, kvHeads: 1, keyWidth: 576, valueWidth: 512, valuesInKeys: true };

function shapeOf(changes: object = {}, device = H200, blockTokens = 32): ReturnType<typeof wideFlashShape> {
  const operation = { ...LATENT, ...changes } as Parameters<typeof wideFlashShape>[1];
  return wideFlashShape("f16", operation, blockTokens, device);
}

describe("wideFlashShape", () => {
  it("fits the heads of published models into a block's shared memory", () => {
    expect(shapeOf()).toEqual({
      defines: { TILE_POSITIONS: 64, VALUE_PARTS: 2, MATRIX_LAYOUT: 80 },
      blocks: 20,
      sharedBytes: 231_504,
    });
  });

  it("takes heads whose values are columns of the keys, in halves of whole panels", () => {
    const taken = [{}, { keyWidth: 192, valueWidth: 128 }, { keyWidth: 256, valueWidth: 256 }, { heads: 128 }];
    expect(taken.map((changes) => shapeOf(changes) !== undefined)).toEqual([true, true, true, true]);
    const others = [
      { valuesInKeys: false },
      { keyWidth: 560 },
      { keyWidth: 640 },
      { valueWidth: 64 },
      { valueWidth: 384 },
    ];
    expect(others.map((changes) => shapeOf(changes))).toEqual(others.map(() => undefined));
  });

  it("takes devices with wide products, and blocks of the cache that tiles fit", () => {
    expect(shapeOf({}, { ...H200, architecture: "sm_80" })).toBeUndefined();
    expect(shapeOf({}, { ...H200, sharedBytes: 163 << 10 })).toBeUndefined();
    const blocks = [8, 16, 32, 48, 64, 96, 128];
    expect(blocks.filter((blockTokens) => shapeOf({}, H200, blockTokens) !== undefined)).toEqual([16, 32, 64, 128]);
  });
});
