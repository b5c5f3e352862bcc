import { describe, expect, it } from "vitest";
import { bucketKey, bucketSize, exactSize, isSameSize } from "./step-bucket.js";

const LIMITS = { maxTokens: 48, maxOutputs: 64 };
const decode = (tokens: number, longest: number, outputs = tokens): ReturnType<typeof exactSize> =>
  exactSize({ tokens, sequences: tokens, outputs, scored: outputs, tiles: tokens, longest, longestRun: 1 });

describe("bucketSize", () => {
  it("keeps small counts, rounds larger ones up, and splits to powers of two", () => {
    expect(bucketSize(decode(1, 1), LIMITS)).toMatchObject({ tokens: 1, outputs: 1, scored: 1, splits: 1 });
    expect(bucketSize(decode(5, 129), LIMITS)).toMatchObject({ tokens: 5, splits: 2 });
    expect(bucketSize(decode(9, 700), LIMITS)).toMatchObject({ tokens: 16, outputs: 16, splits: 8 });
    expect(bucketSize(decode(3, 1, 0), LIMITS)).toMatchObject({ tokens: 3, outputs: 0, scored: 0 });
  });

  it("never rounds past what there is memory for", () => {
    expect(bucketSize(decode(40, 1), LIMITS)).toMatchObject({ tokens: 48 });
    expect(bucketSize(decode(49, 1), LIMITS)).toBeUndefined();
    expect(bucketSize(decode(65, 1), { maxTokens: 512, maxOutputs: 64 })).toBeUndefined();
  });

  it("leaves prompts alone", () => {
    expect(bucketSize({ ...decode(40, 40), longestRun: 40 }, LIMITS)).toBeUndefined();
  });

  it("has one key for what one graph serves", () => {
    const key = (tokens: number, longest: number): string => bucketKey(bucketSize(decode(tokens, longest), LIMITS)!);
    expect(key(9, 300)).toBe(key(16, 511));
    expect(key(8, 300)).not.toBe(key(9, 300));
    expect(key(9, 300)).not.toBe(key(9, 200));
  });

  it("keeps steps of single tokens apart, which take attention of their own", () => {
    const key = (longestRun: number): string => bucketKey(bucketSize({ ...decode(8, 300), longestRun }, LIMITS)!);
    expect(key(1)).not.toBe(key(2));
    expect(key(2)).toBe(key(8));
  });
});

describe("isSameSize", () => {
  it("holds for steps of one bucket only", () => {
    expect(isSameSize(decode(1, 5), decode(1, 128))).toBe(true);
    for (const other of [
      decode(2, 5),
      decode(1, 129),
      decode(1, 5, 0),
      { ...decode(1, 5), longestRun: 9 },
      { ...decode(1, 5), scored: 0 },
    ]) {
      expect(isSameSize(decode(1, 5), other)).toBe(false);
    }
  });
});
