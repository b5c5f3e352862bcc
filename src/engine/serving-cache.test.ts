import { describe, expect, it } from "vitest";
import type { KvCacheOptions } from "../backends/contract.js";
import type { FittedPlan } from "./plan-fit.js";
import { servingCacheTokens } from "./serving-cache.js";

/** 10 bytes a token, 100 bytes of scratch, 1,000 of weights, a tenth of them there. */
function plan(availableBytes: number, contextTokens = 100): FittedPlan {
  return {
    config: { contextTokens, blockTokens: 32, kvCacheType: "f16" },
    program: { kv: {} },
    backend: {
      description: { name: "fake" },
      memory: () => ({ totalBytes: 1e9, availableBytes }),
      kvCacheBytes: ({ blocks, blockTokens }: KvCacheOptions) => blocks * blockTokens * 10,
      supportsKvCache: () => true,
    },
    memory: () => ({
      weightBytes: 1000,
      residentWeightBytes: 1000,
      weightElements: 2000,
      kvCacheBytes: 0,
      scratchBytes: 100,
    }),
    loadingStats: () => ({ cachedBytes: 100 }),
    kvCacheBytes: (tokens: number) => tokens * 10,
  } as unknown as FittedPlan;
}

describe("servingCacheTokens", () => {
  it("holds a whole context for every sequence where there is memory", () => {
    expect(servingCacheTokens(plan(1e9), 8, undefined)).toBe(8 * 128);
  });

  it("takes half of what weights and scratch leave, in whole blocks", () => {
    expect(servingCacheTokens(plan(1000 + 6500), 8, undefined)).toBe(Math.floor(325 / 32) * 32);
  });

  it("holds one context even where that is more than half", () => {
    expect(servingCacheTokens(plan(1000 + 1300), 8, undefined)).toBe(128);
  });

  it("takes what it is told, and refuses what does not fit with the numbers", () => {
    expect(servingCacheTokens(plan(1e9), 8, 33)).toBe(64);
    expect(() => servingCacheTokens(plan(1000 + 1000), 8, undefined)).toThrow(
      expect.objectContaining({ code: "BACKEND_MEMORY" }),
    );
    expect(() => servingCacheTokens(plan(1000 + 1000), 8, 500)).toThrow(
      /for 512 tokens .* a context of 96 tokens would fit/,
    );
  });
});
