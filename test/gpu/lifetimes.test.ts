// Steps that overlap, are cancelled, lose their device or outlive what they use: everyone else's results are what they
// are alone, and nothing is left behind.

import { afterAll, beforeAll, expect, it } from "vitest";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import type { OutputRow } from "../../src/backends/contract.js";
import { GpuError } from "../../src/errors.js";
import { describeEmulator } from "./emulator/build.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { emulatedHip, openEmulated } from "./emulated-hip.js";
import { BLOCK_TOKENS, CONTEXT, decodeStep, openModel, promptStep, writeModel } from "./random-models.js";
import { watchDriver } from "./watched-device.js";

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
const other = folder.file("other.gguf");
beforeAll(async () => {
  await writeModel(path);
  await writeModel(other, { seed: 9, architecture: "qwen2", types: ["Q4_K", "F16"] });
});
afterAll(() => folder[Symbol.dispose]());

const STEPS = [promptStep(5), ...[5, 6, 7, 8].map((position) => promptStep(1, position))];

async function rowsOf(file: string, backend: GpuBackend): Promise<(readonly OutputRow[])[]> {
  await using model = await openModel(file, backend);
  return await model.run(STEPS);
}

describeEmulator("steps", () => {
  it("of two models and of one model at once compute what they compute alone", async () => {
    await using backend = openEmulated(32);
    const expected = [await rowsOf(path, backend), await rowsOf(other, backend)];
    await using first = await openModel(path, backend);
    await using second = await openModel(other, backend);
    const found = await Promise.all([first.run(STEPS), second.run(STEPS), first.run(STEPS), second.run(STEPS)]);
    expect(found).toEqual([...expected, ...expected]);
  });

  it("that are cancelled end early, and the next ones are right", async () => {
    await using backend = openEmulated(32);
    const expected = await rowsOf(path, backend);
    await using model = await openModel(path, backend);
    using cache = model.plan.createKvCache();
    const ended = new AbortController();
    const cold = model.plan.step(promptStep(5), cache, { signal: ended.signal });
    ended.abort(new Error("enough"));
    await expect(cold).rejects.toThrow("enough");
    await expect(model.plan.step(promptStep(5), cache, { signal: ended.signal })).rejects.toThrow("enough");
    const controllers = Array.from({ length: 6 }, () => new AbortController());
    const outcomes = controllers.map(({ signal }, index) => model.plan.step(decodeStep(2, index), cache, { signal }));
    controllers[0].abort();
    controllers[3].abort();
    const settled = await Promise.allSettled(outcomes);
    expect(settled[3].status).toBe("rejected");
    expect(settled[5].status).toBe("fulfilled");
    expect(await model.run(STEPS)).toEqual(expected);
  });

  it("keep a cache that is disposed meanwhile", async () => {
    await using backend = openEmulated(32);
    await using model = await openModel(path, backend);
    const [expected] = await model.run([promptStep(5)]);
    const before = backend.memory().availableBytes;
    const cache = model.plan.createKvCache();
    const running = model.plan.step(promptStep(5), cache);
    cache[Symbol.dispose]();
    expect(await running).toEqual(expected);
    expect(backend.memory().availableBytes).toBe(before);
    await expect(model.plan.step(promptStep(5), cache)).rejects.toMatchObject({ code: "DISPOSED" });
  });

  it("end before their plan and their backend do", async () => {
    const backend = openEmulated(32);
    const model = await openModel(path, backend);
    const cache = model.plan.createKvCache();
    const running = [promptStep(5), promptStep(1, 5)].map((step) =>
      model.plan.step(step, cache).catch((error: unknown) => error),
    );
    await model[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
    await Promise.all(running);
    cache[Symbol.dispose]();
    await expect(backend.measureReadBandwidth(1 << 20)).rejects.toMatchObject({ code: "DISPOSED" });
  });

  it("are refused with a cache of another shape or another backend", async () => {
    await using backend = openEmulated(32);
    await using stranger = openEmulated(32);
    await using model = await openModel(path, backend);
    const shape = {
      ...model.plan.program.kv,
      blocks: CONTEXT / BLOCK_TOKENS,
      blockTokens: BLOCK_TOKENS,
      type: "f16",
    } as const;
    using foreign = stranger.createKvCache(shape);
    using rounded = backend.createKvCache({ ...shape, type: "q8_0" });
    await expect(model.plan.step(promptStep(1), foreign)).rejects.toMatchObject({
      code: "BACKEND_STEP",
      message: expect.stringContaining("another backend"),
    });
    await expect(model.plan.step(promptStep(1), rounded)).rejects.toMatchObject({
      code: "BACKEND_STEP",
      message: expect.stringContaining("q8_0"),
    });
  });
});

describeEmulator("a device that is lost", () => {
  it("ends its step with a GpuError, refuses what comes later by name, and leaves the process able to go on", async () => {
    const lost = openGpuBackend({
      ...emulatedHip("lost", { waveSize: 32, failures: ["lost:60"] }),
      name: "hip",
      backendOptions: {},
    });
    const model = await openModel(path, lost);
    const failure = await model
      .run(Array.from({ length: 40 }, (_, position) => promptStep(1, position)))
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "GPU_DEVICE_LOST",
      details: { kind: "device lost", remedy: expect.any(String) },
    });
    await expect(model.run(STEPS)).rejects.toMatchObject({ code: "GPU_DEVICE_LOST" });
    await model[Symbol.asyncDispose]();
    await lost[Symbol.asyncDispose]();
    await using backend = openEmulated(32);
    await expect(rowsOf(path, backend)).resolves.toHaveLength(STEPS.length);
  });
});

describeEmulator("copies of blocks", () => {
  it("are a few of the device's own each, and their cache's memory is free when they are through", async () => {
    const found = emulatedHip("wave-32", { waveSize: 32 });
    const driver = watchDriver(found.driver);
    await using backend = openGpuBackend({ ...found, driver, name: "hip", backendOptions: {} });
    const before = backend.memory().availableBytes;
    const cache = backend.createKvCache({
      layers: 3,
      kvHeads: 2,
      keyWidth: 64,
      valueWidth: 32,
      blocks: 8,
      blockTokens: BLOCK_TOKENS,
      type: "q8_0",
    });
    cache.copyBlocks(Int32Array.of(0, 1, 0, 2));
    // Keys, values and their scales.
    expect(driver.calls.get("copyOnDevice")).toBe(3 * 4 * 2);
    cache[Symbol.dispose]();
    expect(backend.memory().availableBytes).toBe(before);
  });

  it("that fail after a step under way are told to the steps that come after them", async () => {
    const found = emulatedHip("wave-32", { waveSize: 32 });
    const failure = new GpuError("GPU_COPY", "the bus is torn");
    const driver = watchDriver(found.driver, {
      copyOnDevice: () => {
        throw failure;
      },
    });
    await using backend = openGpuBackend({ ...found, driver, name: "hip", backendOptions: {} });
    await using model = await openModel(path, backend);
    using cache = model.plan.createKvCache();
    expect(() => cache.copyBlocks(Int32Array.of(0, 9))).toThrow(failure);
    const first = model.plan.step(promptStep(5), cache);
    cache.copyBlocks(Int32Array.of(0, 9));
    const later = model.plan.step(promptStep(1, 5), cache);
    await expect(later).rejects.toBe(failure);
    await expect(first).resolves.toHaveLength(1);
    await expect(model.plan.step(promptStep(1, 5), cache)).rejects.toBe(failure);
    expect(() => cache.copyBlocks(Int32Array.of(0, 9))).toThrow(failure);
  });
});

describeEmulator("options", () => {
  it("that a GPU cannot honour are refused by name", () => {
    const found = emulatedHip("wave-32", { waveSize: 32 });
    expect(() => openGpuBackend({ ...found, name: "hip", backendOptions: { threads: 2 } })).toThrow(
      "[hip] threads: expected none, because the GPU computes, found 2",
    );
    expect(() => openGpuBackend({ ...found, name: "hip", backendOptions: { device: 7 } })).toThrow(
      expect.objectContaining({ code: "GPU_DEVICE_NOT_FOUND" }),
    );
  });

  it("let the memory's speed be measured", async () => {
    await using backend = openEmulated(32);
    expect(await backend.measureReadBandwidth(1 << 20)).toBeGreaterThan(0);
  });
});
