import { describe, expect, it } from "vitest";
import type { KvShape } from "../graph/program.js";
import { kvLayout } from "./gpu/memory/kv-layout.js";
import { blockCounts, cacheBlocks, groupBlocks, sequenceBlocks } from "./cache-size.js";

const CONTENTS = { tokens: 32_768, sequences: 1, stepTokens: 4096, blockTokens: 32 };

/** Every sixth layer of Gemma-3-12B and every second one of gpt-oss-20b sees everything. */
function windowed(shape: KvShape, window: number, period: number): KvShape {
  const layers = Array.from({ length: shape.layers }, (_, layer) => layer);
  const isFull = (layer: number): boolean => layer % period === period - 1;
  return {
    ...shape,
    groups: [{ layers: layers.filter((layer) => !isFull(layer)), window }, { layers: layers.filter(isFull) }],
  };
}

const GEMMA3 = windowed({ layers: 48, kvHeads: 8, keyWidth: 256, valueWidth: 256 }, 1024, 6);
const GPT_OSS = windowed({ layers: 24, kvHeads: 8, keyWidth: 64, valueWidth: 64 }, 128, 2);

describe("cacheBlocks", () => {
  it("is the context for full attention, and two windows and a step for a window", () => {
    expect(cacheBlocks({ ...GEMMA3, groups: [] }, CONTENTS)).toEqual([]);
    expect(cacheBlocks({ layers: 4, kvHeads: 1, keyWidth: 8, valueWidth: 8 }, CONTENTS)).toEqual([1024]);
    expect(cacheBlocks(GEMMA3, CONTENTS)).toEqual([2 * 33 + 128, 1024]);
    expect(cacheBlocks(GEMMA3, { ...CONTENTS, sequences: 8 })).toEqual([2 * 8 * 33 + 128, 1024]);
  });

  it("is never more for a window than for full attention", () => {
    expect(cacheBlocks(GEMMA3, { ...CONTENTS, tokens: 2048 })).toEqual([64, 64]);
  });

  it.each([
    ["Gemma-3-12B", GEMMA3, 12.9, 4.2],
    ["gpt-oss-20b", GPT_OSS, 1.61, 0.92],
  ])("takes of %s at 32,768 tokens what docs/adr/0014 says", (_name, shape, wholeGb, groupedGb) => {
    const gigabytes = (blocks: readonly number[]): number =>
      kvLayout({ ...shape, ...blockCounts(blocks), blockTokens: 32, type: "f16" }).sizeBytes / 1e9;
    expect(gigabytes([1024, 1024])).toBeCloseTo(wholeGb, 1);
    expect(gigabytes(cacheBlocks(shape, CONTENTS))).toBeCloseTo(groupedGb, 1);
  });
});

describe("sequenceBlocks", () => {
  it("covers a window and a step that begin and end anywhere", () => {
    for (const [window, stepTokens, blockTokens] of [
      [1, 1, 4],
      [5, 1, 4],
      [9, 7, 4],
      [8, 16, 8],
    ]) {
      const held = (position: number): number => {
        const first = Math.floor(Math.max(0, position + 1 - window) / blockTokens);
        return Math.floor((position + stepTokens - 1) / blockTokens) + 1 - first;
      };
      const most = Math.max(...Array.from({ length: 50 }, (_, position) => held(position)));
      expect(sequenceBlocks({ window }, 1000, { stepTokens, blockTokens })).toBeGreaterThanOrEqual(most);
      expect(sequenceBlocks({ window }, 1000, { stepTokens, blockTokens })).toBeLessThanOrEqual(most + 1);
    }
    expect(sequenceBlocks({}, 9, { stepTokens: 1, blockTokens: 4 })).toBe(3);
    expect(sequenceBlocks({ chunk: 100 }, 9, { stepTokens: 1, blockTokens: 4 })).toBe(3);
  });
});

describe("groupBlocks", () => {
  it("is the same for all groups unless they differ", () => {
    const options = { ...GEMMA3, blockTokens: 32, type: "f16" } as const;
    expect(groupBlocks({ ...options, ...blockCounts([7, 7]) })).toEqual([7, 7]);
    expect(blockCounts([7, 7])).toEqual({ blocks: 7 });
    expect(groupBlocks({ ...options, ...blockCounts([3, 7]) })).toEqual([3, 7]);
    expect(blockCounts([3, 7])).toEqual({ blocks: 7, blocksByGroup: [3, 7] });
  });
});
