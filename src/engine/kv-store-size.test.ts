import { describe, expect, it } from "vitest";
import type { KvCacheOptions } from "../backends/contract.js";
import type { FittedPlan } from "./plan-fit.js";
import { cacheLimitTokens, fittingBlocks, fixedCacheTokens, stateSlotsFor } from "./kv-store-size.js";

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
      stateBytes: 0,
      scratchBytes: 100,
    }),
    loadingStats: () => ({ cachedBytes: 100 }),
    kvCacheBytes: (tokens: number) => tokens * 10,
    kvCacheBlocks: (tokens: number) => [Math.ceil(tokens / 32)],
  } as unknown as FittedPlan;
}

describe("fixedCacheTokens", () => {
  it("holds a whole context for every sequence where there is memory", () => {
    expect(fixedCacheTokens(plan(1e9), 8, undefined)).toBe(8 * 128);
  });

  it("takes half of what weights and scratch leave, in whole blocks", () => {
    expect(fixedCacheTokens(plan(1000 + 6500), 8, undefined)).toBe(Math.floor(325 / 32) * 32);
  });

  it("holds one context even where that is more than half", () => {
    expect(fixedCacheTokens(plan(1000 + 1300), 8, undefined)).toBe(128);
  });

  it("takes what it is told, and refuses what does not fit with the numbers", () => {
    expect(fixedCacheTokens(plan(1e9), 8, 33)).toBe(64);
    expect(() => fixedCacheTokens(plan(1000 + 1000), 8, undefined)).toThrow(
      expect.objectContaining({ code: "BACKEND_MEMORY" }),
    );
    expect(() => fixedCacheTokens(plan(1000 + 1000), 8, 500)).toThrow(
      /for 512 tokens .* a context of 96 tokens would fit/,
    );
  });
});

describe("cacheLimitTokens", () => {
  it("allows a whole context for every sequence if there is memory, and else half of what is left", () => {
    expect(cacheLimitTokens(plan(1e9), 8)).toBe(8 * 128);
    expect(cacheLimitTokens(plan(1000 + 6500), 8)).toBe(Math.floor(325 / 32) * 32);
  });

  it("allows one context all the memory there is, and a part of one if that is less", () => {
    expect(cacheLimitTokens(plan(1000 + 1300 + 100), 8)).toBe(128);
    expect(cacheLimitTokens(plan(1000 + 1000), 8)).toBe(96);
    expect(() => cacheLimitTokens(plan(1000 + 200), 8)).toThrow(expect.objectContaining({ code: "BACKEND_MEMORY" }));
  });
});

describe("fittingBlocks", () => {
  /** Full attention of 10 bytes a token, and windows of 4 blocks of 32 tokens for each sequence. */
  function windowed(spareBytes: number): FittedPlan {
    return {
      ...plan(1000 + spareBytes),
      kvCacheBytes: (tokens: number, sequences: number) => tokens * 10 + sequences * 4 * 320,
      kvCacheBlocks: (tokens: number, sequences: number) => [tokens / 32, sequences * 4],
    };
  }

  it("has windows of all sequences where there is memory, and else of as many as fit", () => {
    expect(fittingBlocks(windowed(1e6), 128, 8)).toEqual([4, 32]);
    expect(fittingBlocks(windowed(1280 + 5 * 1280), 128, 8)).toEqual([4, 20]);
    expect(fittingBlocks(windowed(1280), 128, 8)).toEqual([4, 4]);
  });

  it("leaves the more tokens, the fewer windows take", () => {
    expect(fixedCacheTokens(windowed(40_000), 8, undefined)).toBe(Math.floor((20_000 - 8 * 1280) / 320) * 32);
  });
});

describe("stateSlotsFor", () => {
  /** 10 bytes a token, and 1,000 for the states of a sequence. */
  function recurrent(spareBytes: number): FittedPlan {
    const attending = plan(1000 + spareBytes);
    return {
      ...attending,
      program: { kv: { states: [250] } },
      memory: () => ({ ...attending.memory(), stateBytes: 1000 }),
      kvCacheBytes: (tokens: number, sequences = 1) => tokens * 10 + Math.max(2, sequences) * 1000,
    } as unknown as FittedPlan;
  }
  const demand = { tokens: 128, sequences: 4, checkpoints: undefined };

  it("has none without recurrent layers", () => {
    expect(stateSlotsFor(plan(1e9), demand)).toBeUndefined();
  });

  it("has one for each sequence, and checkpoints in an eighth of the spare memory, as many as are useful", () => {
    expect(stateSlotsFor(recurrent(1e6), demand)).toBe(4 + 4 * 16);
    expect(stateSlotsFor(recurrent(80_000), demand)).toBe(4 + 10);
    expect(stateSlotsFor(recurrent(80_000), { ...demand, checkpoints: 3 })).toBe(4 + 3);
  });

  it("has slots for fewer sequences if all do not fit, but always one for a checkpoint", () => {
    expect(stateSlotsFor(recurrent(1280 + 3000), demand)).toBe(3 + 1);
    expect(stateSlotsFor(recurrent(1280 + 2000), demand)).toBe(2 + 1);
  });
});
