// Models that do not fit the emulated card's memory: refused with the parts and with what would fit, and that does.

import { afterAll, beforeAll, expect, it } from "vitest";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import type { MemoryAdvice } from "../../src/backends/memory-fit.js";
import { arr, u32 } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { Model } from "../../src/model/model.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { familyModel } from "../conformance/models/family-model.js";
import type { ModelOptions } from "../../src/engine/open-plan.js";
import { BackendError } from "../../src/errors.js";
import { describeEmulator } from "./emulator/build.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { emulatedHip, resetEmulated } from "./emulated-hip.js";
import { writeModel } from "./random-models.js";

const folder = new TemporaryFolder();
const small = folder.file("small.gguf");
const large = folder.file("large-Q8_0.gguf");
const LARGE = { vocabulary: 44_000, layers: 1 } as const;
beforeAll(async () => {
  await writeModel(small);
  await writeModel(large, { ...LARGE, types: ["Q8_0"] });
});
afterAll(() => folder[Symbol.dispose]());

interface Refusal extends MemoryAdvice {
  readonly message: string;
  readonly details: Readonly<
    Record<"neededBytes" | "availableBytes" | "weightBytes" | "kvCacheBytes" | "scratchBytes", number>
  > &
    MemoryAdvice;
}

function openCard(memoryBytes: number): GpuBackend {
  return openGpuBackend({
    ...emulatedHip(`memory-${memoryBytes}`, { waveSize: 32, memoryBytes }),
    name: "hip",
    backendOptions: {},
  });
}

/** Sets aside a cache for the whole context, and computes one token. */
async function fill(path: string, memoryBytes: number, options: ModelOptions): Promise<number> {
  await using model = await Model.open(path, openCard(memoryBytes), options);
  for await (const _ of model.generate([1, 2, 3], {
    maxTokens: model.contextTokens - 3,
    temperature: 0,
    ignoreEndOfGeneration: true,
  }))
    break;
  return model.loadingStats().loadedTensors;
}

async function refusal(path: string, memoryBytes: number, options: ModelOptions): Promise<Refusal> {
  const error = await fill(path, memoryBytes, options).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(BackendError);
  const refused = error as Refusal;
  const { neededBytes, availableBytes, weightBytes, kvCacheBytes, scratchBytes } = refused.details;
  expect(neededBytes).toBe(weightBytes + kvCacheBytes + scratchBytes);
  expect(neededBytes).toBeGreaterThan(availableBytes);
  expect(availableBytes).toBeLessThanOrEqual(memoryBytes);
  return refused;
}

describeEmulator("a card", () => {
  const memoryBytes = 40 << 20;

  it.each([
    ["when it is opened, where its context is more than there is", 50_000],
    ["when it is run, where its weights and its context together are", 28_672],
  ])("refuses a model %s, and names what would fit", async (_, contextTokens) => {
    const { message, details } = await refusal(small, memoryBytes, { contextTokens });
    const { fittingTokens = 0, fittingKvCacheType } = details;
    expect(message).toContain(`a context of ${fittingTokens} tokens would fit (\`contextTokens: ${fittingTokens}\`)`);
    expect(fittingTokens).toBeGreaterThan(0);
    expect(fittingTokens).toBeLessThan(contextTokens);
    await expect(fill(small, memoryBytes, { contextTokens: fittingTokens })).resolves.toBeGreaterThan(0);
    // A shorter context takes less scratch memory, too, which leaves room for a little more.
    await expect(refusal(small, memoryBytes, { contextTokens: Math.ceil(fittingTokens * 1.2) })).resolves.toBeDefined();
    const wantsSmaller = contextTokens === 28_672;
    expect(fittingKvCacheType).toBe(wantsSmaller ? "q8_0" : undefined);
    if (!wantsSmaller) return;
    expect(message).toContain(`or all ${contextTokens} with keys and values in q8_0 (\`kvCacheType: "q8_0"\`)`);
    await expect(fill(small, memoryBytes, { contextTokens, kvCacheType: "q8_0" })).resolves.toBeGreaterThan(0);
  });

  it("refuses weights that do not fit, before any is read, and names a type that would", async () => {
    const tight = 44 << 20;
    await using model = await Model.open(large, openCard(tight), { contextTokens: 256 });
    await expect(model.generate([1, 2, 3], { maxTokens: 1 }).result).rejects.toMatchObject({
      code: "BACKEND_MEMORY",
      details: { fittingWeightType: expect.stringMatching(/^Q/) },
    });
    expect(model.loadingStats().loadedTensors).toBe(0);
    const { details } = await refusal(large, tight, { contextTokens: 256 });
    // Types of tensors, which a mixture is named after.
    const type = { Q6_K: "Q6_K", Q5_K_M: "Q5_K", Q4_K_M: "Q4_K" }[String(details.fittingWeightType)];
    expect(type).toBeDefined();
    const smaller = folder.file("large-smaller.gguf");
    await writeModel(smaller, { ...LARGE, types: [type as "Q4_K"] });
    await expect(fill(smaller, tight, { contextTokens: 256 })).resolves.toBeGreaterThan(0);
  });

  it("holds no table of embeddings for each layer, which is larger than the card", async () => {
    const path = folder.file("layer-embeddings.gguf");
    const [layers, width, vocabularySize] = [3, 2048, 1500];
    const keys = [
      u32("attention.sliding_window", 8),
      arr("attention.sliding_window_pattern", "bool", [true, true, false]),
      u32("embedding_length_per_layer_input", width),
    ];
    const shape = { architecture: "gemma4", layers, headWidth: 16, tied: true, vocabularySize, keys: () => keys };
    await writeGguf(path, familyModel(3, shape));
    const tableBytes = 4 * layers * width * vocabularySize;
    const tight = 32 << 20;
    expect(tableBytes).toBeGreaterThan(tight);
    await using loader = await GgufLoader.open(path);
    await using plan = ExecutionPlan.fromLoader(loader, openCard(tight), { contextTokens: 64 });
    const { weightBytes, residentWeightBytes } = plan.memory();
    expect(weightBytes).toBeGreaterThan(tableBytes);
    expect(residentWeightBytes).toBeLessThan(weightBytes - tableBytes + (1 << 20));
    expect(residentWeightBytes).toBeGreaterThanOrEqual(weightBytes - tableBytes);
    await expect(fill(path, tight, { contextTokens: 64 })).resolves.toBeGreaterThan(0);
  });

  it("loads what its driver reports no memory for where it is told to try", async () => {
    const found = emulatedHip("wave-32", { waveSize: 32 });
    resetEmulated(found, { waveSize: 32, reportedBytes: 1 << 20 });
    const open = (): GpuBackend => openGpuBackend({ ...found, name: "hip", backendOptions: {} });
    const loadedWith = async (options: ModelOptions): Promise<number> => {
      await using model = await Model.open(small, open(), { contextTokens: 256, ...options });
      await model.generate([1, 2, 3], { maxTokens: 1 }).result;
      return model.loadingStats().loadedTensors;
    };
    await expect(loadedWith({})).rejects.toMatchObject({
      code: "BACKEND_MEMORY",
      message: expect.stringContaining("`ignoreMemoryCheck` tries it anyway"),
    });
    await expect(loadedWith({ ignoreMemoryCheck: true })).resolves.toBeGreaterThan(0);
    resetEmulated(found, { waveSize: 32 });
  });

  it("ends such a try with its driver's refusal, and is as good as before", async () => {
    await expect(fill(small, memoryBytes, { contextTokens: 50_000, ignoreMemoryCheck: true })).rejects.toMatchObject({
      code: "BACKEND_MEMORY",
      cause: { code: "GPU_OUT_OF_MEMORY" },
    });
    await expect(fill(large, memoryBytes, { contextTokens: 256, ignoreMemoryCheck: true })).rejects.toMatchObject({
      code: "GPU_OUT_OF_MEMORY",
    });
    await expect(fill(small, memoryBytes, { contextTokens: 256 })).resolves.toBeGreaterThan(0);
  });
});
