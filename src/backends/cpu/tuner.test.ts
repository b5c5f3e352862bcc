import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { writeFileSync } from "node:fs";
import { TemporaryFolder } from "../../../test/support/temporary-folder.js";
import type { CompiledProgram, KvCache, KvCacheOptions, ProgramLimits } from "../contract.js";
import { type ProcessorIdentity, TunedModels, type TunedSettings } from "./tuned-settings.js";
import { type CpuTunerHost, threadCandidates, tuneCpu } from "./tuner.js";

const LIMITS: ProgramLimits = {
  maxTokens: 512,
  maxOutputs: 64,
  contextTokens: 1024,
  blockTokens: 32,
  kvCacheType: "f16",
};

let nowMs = 0;
beforeEach(() => {
  nowMs = 0;
  vi.spyOn(performance, "now").mockImplementation(() => nowMs);
});
afterEach(() => void vi.restoreAllMocks());

/** A backend whose steps take the milliseconds that `model` says. */
function hostOf(model: (threads: number, tokens: number) => number, changes: Partial<CpuTunerHost> = {}): CpuTunerHost {
  return {
    kv: { layers: 1, kvHeads: 1, keyWidth: 32, valueWidth: 32 },
    limits: LIMITS,
    maxStepTokens: 512,
    vocabularySize: 100,
    settings: { threads: 8, chunkTokens: 256 },
    mayChooseThreads: true,
    compile: (threads): CompiledProgram => ({
      scratchBytes: () => 0,
      run: async ({ tokens, positions, blockTables }) => {
        if (positions[positions.length - 1] >= blockTables[0].length * LIMITS.blockTokens)
          throw new RangeError("cache");
        nowMs += model(threads, tokens.length);
        return [];
      },
      [Symbol.dispose]: () => {},
    }),
    createKvCache: (options: KvCacheOptions) => ({ options, [Symbol.dispose]: () => {} }) as unknown as KvCache,
    ...changes,
  };
}

describe("tuning of the cpu backend", () => {
  it("finds the threads and the chunk that take the least time", async () => {
    // Large chunks no longer fit a cache.
    const host = hostOf((threads, tokens) => 10 + Math.abs(threads - 6) + tokens * (tokens > 128 ? 1 : 0.5));
    const { settings, report } = await tuneCpu(host, { budgetMs: 1e6 });
    expect(settings.threads).toMatchObject({ before: 8, after: 6 });
    expect(settings.chunkTokens).toMatchObject({ before: 256, after: 128 });
    expect(report).toMatchObject({ isComplete: true, rejected: 0 });
  });

  it("takes the largest chunk only if it is clearly faster", async () => {
    const eager = await tuneCpu(
      hostOf((_, tokens) => 100 + tokens),
      { budgetMs: 1e9 },
    );
    expect(eager.settings.chunkTokens).toMatchObject({ before: 256, after: 512 });
    const alike = await tuneCpu(
      hostOf((_, tokens) => 1 + tokens),
      { budgetMs: 1e9 },
    );
    expect(alike.settings.chunkTokens).toMatchObject({ before: 256, after: 256 });
  });

  it("leaves threads that the user chose, and ends when the time is up", async () => {
    const own = await tuneCpu(
      hostOf(() => 1, { mayChooseThreads: false }),
      { budgetMs: 1e6 },
    );
    expect(own.settings.threads).toBeUndefined();
    const late = await tuneCpu(
      hostOf(() => 1000),
      { budgetMs: 2500 },
    );
    expect(late.settings).toEqual({});
    expect(late.report).toMatchObject({ isComplete: false, choices: [] });
    expect(nowMs).toBeLessThan(60_000);
  });

  it("tries fewer threads and all processors", () => {
    expect(threadCandidates(8, 16)).toEqual([4, 6, 7, 8, 16]);
    expect(threadCandidates(2, 2)).toEqual([1, 2]);
    expect(threadCandidates(1, 1)).toEqual([1]);
  });
});

const IDENTITY: ProcessorIdentity = {
  isa: "avx2",
  addon: "/nowhere",
  bindingsVersion: 8,
  deterministic: false,
  place: { threads: 4, reason: "" },
};
const MODEL = "ab".repeat(32);
const SETTINGS: TunedSettings = { threads: { before: 4, after: 3, beforeUs: 10, afterUs: 9 } };

describe("tuned settings on disk", () => {
  it("are those of one model on one processor", async () => {
    using folder = new TemporaryFolder();
    const models = new TunedModels(IDENTITY, folder.path);
    expect(models.settings(MODEL)).toEqual({});
    expect(await models.keep(MODEL, SETTINGS)).toBe(true);
    expect(new TunedModels(IDENTITY, folder.path).settings(MODEL)).toEqual(SETTINGS);
    expect(models.settings("cd".repeat(32))).toEqual({});
    for (const changes of [
      { isa: "avx512" },
      { deterministic: true },
      { bindingsVersion: 9 },
      { place: { threads: 8, reason: "" } },
    ])
      expect(new TunedModels({ ...IDENTITY, ...changes }, folder.path).settings(MODEL)).toEqual({});
  });

  it.each([
    ["damaged", "{"],
    ["of another form", "[]"],
    ["with another section", JSON.stringify({ models: {}, more: 1 })],
    ["with a model that is none", JSON.stringify({ models: { __proto: SETTINGS } })],
    ["with an unknown setting", JSON.stringify({ models: { [MODEL]: { cores: SETTINGS.threads } } })],
    ["with no threads", JSON.stringify({ models: { [MODEL]: { threads: { ...SETTINGS.threads, after: 0 } } } })],
    [
      "with too many threads",
      JSON.stringify({ models: { [MODEL]: { threads: { ...SETTINGS.threads, after: 1e6 } } } }),
    ],
    [
      "with a time below zero",
      JSON.stringify({ models: { [MODEL]: { threads: { ...SETTINGS.threads, afterUs: -1 } } } }),
    ],
  ])("are ignored if the file is %s", (_, text) => {
    using folder = new TemporaryFolder();
    const models = new TunedModels(IDENTITY, folder.path);
    writeFileSync(models.path, text);
    expect(models.settings(MODEL)).toEqual({});
  });
});
