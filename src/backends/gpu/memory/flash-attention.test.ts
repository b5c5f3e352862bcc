import { describe, expect, it } from "vitest";
import {
  type FlashParameters,
  flashRequest,
  flashShape,
  isFlashShape,
  usualFlashParameters,
} from "./flash-attention.js";

const H200 = { architecture: "sm_90", sharedBytes: 227 << 10 };
const POOR: FlashParameters = { heads: 1, positions: 64, stages: 2 };

function requestOf(width: number, group: number, blockTokens = 32): NonNullable<ReturnType<typeof flashRequest>> {
  const operation = { heads: 8 * group, kvHeads: 8, keyWidth: width, valueWidth: width };
  const request = flashRequest("f16", operation as Parameters<typeof flashRequest>[1], blockTokens, H200);
  if (request === undefined) throw new TypeError("this is a shape for flash attention");
  return request;
}

describe("flashShape", () => {
  it("has the blocks that were measured unless others are chosen", () => {
    const usual = (width: number, group: number): object => {
      const request = requestOf(width, group);
      const { defines, blocks } = flashShape(request, usualFlashParameters(request));
      return [defines.TEAMS, defines.TILE_POSITIONS, defines.STAGES, defines.RESIDENT_BLOCKS, blocks];
    };
    expect([64, 128, 256].map((width) => usual(width, 1))).toEqual([
      [2, 128, 2, 2, 8],
      [2, 64, 2, 2, 8],
      [2, 64, 2, 1, 8],
    ]);
    expect([64, 128, 256].map((width) => usual(width, 3))).toEqual([
      [3, 128, 2, 1, 16],
      [3, 128, 2, 1, 16],
      [3, 64, 2, 1, 16],
    ]);
  });

  it("can be cut poorly whatever the heads and the blocks of the cache", () => {
    for (const width of [64, 128, 256])
      for (const group of [1, 4])
        for (const blockTokens of [16, 32, 64, 128])
          expect(isFlashShape(requestOf(width, group, blockTokens), POOR)).toBe(true);
  });

  it("takes no more heads than there are, and what registers and shared memory hold", () => {
    const isValid = (width: number, group: number, changes: Partial<FlashParameters>): boolean =>
      isFlashShape(requestOf(width, group), { ...POOR, ...changes });
    expect([isValid(64, 1, { heads: 2 }), isValid(64, 2, { heads: 2 })]).toEqual([false, true]);
    expect([64, 128, 256].map((width) => isValid(width, 1, { positions: 128 }))).toEqual([true, true, false]);
    expect([2, 3, 4].map((stages) => isValid(128, 1, { stages }))).toEqual([true, true, false]);
    expect(isValid(128, 2, { heads: 2, positions: 128, stages: 3 })).toBe(true);
    expect(isValid(256, 2, { heads: 2, stages: 3 })).toBe(false);
    expect(flashShape(requestOf(128, 1), { ...POOR, positions: 128 }).defines.RESIDENT_BLOCKS).toBe(1);
  });
});
