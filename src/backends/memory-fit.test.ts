import { describe, expect, it } from "vitest";
import fc from "fast-check";
import { adviceFor, type MemoryQuestion, neededBytes, refuseUnfit } from "./memory-fit.js";

/** About an 8B model in Q4_K_M: 4.9 GB, and 128 KiB for each position in f16. */
const MODEL: MemoryQuestion = {
  place: "cuda device 0",
  availableBytes: 6e9,
  weightBytes: 4.92e9,
  weightElements: 8.03e9,
  scratchBytes: 2e8,
  tokens: 8192,
  blockTokens: 32,
  kvCacheType: "f16",
  kvCacheBytes: (tokens, type) => tokens * 65_536 * { f32: 4, f16: 2, q8_0: 1.0625 }[type],
  supportsKvCacheType: () => true,
};

const messageOf = (question: MemoryQuestion): string => {
  try {
    refuseUnfit(question);
  } catch (error) {
    return (error as Error).message;
  }
  return "";
};

describe("a model that does not fit", () => {
  it("is refused with the parts, the largest context and the smaller type that would", () => {
    expect(messageOf(MODEL)).toBe(
      "[cuda device 0] 6.19 GB are needed (weights 4.92 GB, KV cache of f16 for 8192 tokens 1.07 GB, scratch 200.0 MB) and 6.00 GB are free; " +
        'a context of 6688 tokens would fit (`contextTokens: 6688`), or all 8192 with keys and values in q8_0 (`kvCacheType: "q8_0"`)' +
        "; `ignoreMemoryCheck` tries it anyway",
    );
    expect(adviceFor(MODEL)).toEqual({ fittingTokens: 6688, fittingKvCacheType: "q8_0" });
  });

  it("names recurrent states apart from keys and values", () => {
    const stateBytes = 3e8;
    const kvCacheBytes: MemoryQuestion["kvCacheBytes"] = (tokens, type) =>
      MODEL.kvCacheBytes(tokens, type) + stateBytes;
    expect(messageOf({ ...MODEL, stateBytes, kvCacheBytes })).toContain(
      "6.49 GB are needed (weights 4.92 GB, KV cache of f16 for 8192 tokens 1.07 GB, recurrent states 300.0 MB, scratch 200.0 MB)",
    );
  });

  it("has no smaller type named that the backend has not, or that would not fit either", () => {
    expect(adviceFor({ ...MODEL, supportsKvCacheType: (type) => type !== "q8_0" })).toEqual({ fittingTokens: 6688 });
    expect(adviceFor({ ...MODEL, availableBytes: 5.2e9 })).toEqual({ fittingTokens: 608 });
    expect(adviceFor({ ...MODEL, kvCacheType: "f32" })).toMatchObject({ fittingKvCacheType: "q8_0" });
    expect(adviceFor({ ...MODEL, kvCacheType: "q8_0", availableBytes: 5.2e9 })).toEqual({ fittingTokens: 1120 });
  });

  it("has smaller weights named where no context would help", () => {
    expect(adviceFor({ ...MODEL, availableBytes: 5e9 })).toEqual({
      fittingWeightType: "Q2_K",
      fittingWeightBytes: 3.212e9,
    });
    expect(messageOf({ ...MODEL, availableBytes: 5e9 })).toMatch(
      /; the model quantised to Q2_K would fit with about 3\.21 GB of weights; `ignoreMemoryCheck`/,
    );
    expect(adviceFor({ ...MODEL, weightBytes: 16.06e9, availableBytes: 10e9 })).toMatchObject({
      fittingWeightType: "Q8_0",
    });
    expect(adviceFor({ ...MODEL, availableBytes: 3e9 })).toEqual({});
    expect(messageOf({ ...MODEL, availableBytes: 3e9 })).toMatch(
      /; no usual quantisation of this model would fit with this context: use a smaller model or another device; `ignoreMemoryCheck`/,
    );
  });

  it("has none named where weights take no memory of the device", () => {
    const mapped = { ...MODEL, weightBytes: 0, weightElements: 0, availableBytes: 1e6 };
    expect(adviceFor(mapped)).toEqual({});
    expect(messageOf(mapped)).toMatch(/; not even the shortest context would fit; `ignoreMemoryCheck`/);
  });
});

it("advises only what fits, and of contexts the largest", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2e10 }),
      fc.integer({ min: 1, max: 1e10 }),
      fc.integer({ min: 1, max: 1e6 }),
      fc.integer({ min: 1, max: 256 }),
      (availableBytes, weightBytes, tokens, blockTokens) => {
        const question = { ...MODEL, availableBytes, weightBytes, tokens, blockTokens };
        if (neededBytes(question) <= availableBytes) return;
        const { fittingTokens, fittingKvCacheType, fittingWeightBytes } = adviceFor(question);
        const doesFit = (changes: Partial<MemoryQuestion>): boolean =>
          neededBytes({ ...question, ...changes }) <= availableBytes;
        if (fittingTokens !== undefined) {
          expect(doesFit({ tokens: fittingTokens })).toBe(true);
          expect(doesFit({ tokens: fittingTokens + blockTokens })).toBe(false);
        }
        if (fittingKvCacheType !== undefined) expect(doesFit({ kvCacheType: fittingKvCacheType })).toBe(true);
        if (fittingWeightBytes !== undefined) expect(doesFit({ weightBytes: fittingWeightBytes })).toBe(true);
      },
    ),
  );
});
