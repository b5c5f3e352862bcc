// Weights on their way to the device: from mapped pages or through pinned memory, computing while later ones arrive, and
// given back whole when something fails half way.

import { copyFileSync, statSync, truncateSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { describeEmulator } from "./emulator/build.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { emulatedHip, openEmulated } from "./emulated-hip.js";
import { openModel, promptStep, writeModel } from "./random-models.js";
import { watchDriver } from "./watched-device.js";

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
const large = folder.file("large.gguf");
beforeAll(async () => {
  await writeModel(path);
  // A table of 12 MB: more than one piece of pinned memory, re-laid in parts.
  await writeModel(large, { types: ["Q8_0"], vocabulary: 44_000, layers: 1 });
});
afterAll(() => folder[Symbol.dispose]());

async function logitsOf(file: string, backend: GpuBackend): Promise<unknown> {
  await using model = await openModel(file, backend);
  return await model.run([promptStep(5)]);
}

function openWith(changes: Parameters<typeof watchDriver>[1]): {
  readonly backend: GpuBackend;
  readonly calls: Map<string, number>;
} {
  const { driver, compiler } = emulatedHip("wave-32", { waveSize: 32 });
  const watched = watchDriver(driver, changes);
  return {
    backend: openGpuBackend({ driver: watched, compiler, name: "hip", backendOptions: {} }),
    calls: watched.calls,
  };
}

describeEmulator("weights", () => {
  it.each([path, large])("come from mapped pages as they come from reads", async (file) => {
    await using reading = openEmulated(32);
    const expected = await logitsOf(file, reading);
    const { backend, calls } = openWith({ registersReadOnly: true });
    await using registering = backend;
    expect(await logitsOf(file, registering)).toEqual(expected);
    expect(calls.get("registerHost")).toBeGreaterThan(0);
    await vi.waitFor(() => expect(calls.get("unregisterHost")).toBe(calls.get("registerHost")), { timeout: 60_000 });
  });

  it("are read where the driver refuses the pages", async () => {
    await using reading = openEmulated(32);
    const { backend } = openWith({
      registersReadOnly: true,
      registerHost: () => Promise.reject(new Error("not today")),
    });
    await using refused = backend;
    expect(await logitsOf(path, refused)).toEqual(await logitsOf(path, reading));
  });

  it("arrive while the first layers compute", async () => {
    const { backend, calls } = openWith({});
    await using _ = backend;
    await using loader = await GgufLoader.open(path);
    const names = [...loader.file.tensors.keys()];
    const last = loader.lazy(names[names.length - 1], backend);
    await Promise.all(names.map((name) => loader.lazy(name, backend).load()));
    expect(last.state).toBe("resident");
    // Loading queues copies and waits for none of them.
    expect(calls.get("synchronize")).toBeUndefined();
  });

  it("are given back when their file has shrunk", async () => {
    const short = folder.file("short.gguf");
    copyFileSync(path, short);
    await using backend = openEmulated(32);
    const before = backend.memory().availableBytes;
    {
      await using loader = await GgufLoader.open(short, { mapping: "off" });
      const names = [...loader.file.tensors.keys()];
      truncateSync(short, statSync(short).size / 2);
      await expect(Promise.all(names.map((name) => loader.lazy(name, backend).load()))).rejects.toMatchObject({
        code: "GGUF_TRUNCATED",
      });
    }
    // But for staging memory, which stays.
    expect(before - backend.memory().availableBytes).toBeLessThanOrEqual(32 << 20);
    await expect(logitsOf(path, backend)).resolves.toHaveLength(1);
  });
});

describeEmulator("memory", () => {
  describe("that is used up", () => {
    it("is told with the numbers before anything is loaded, and leaves the device usable", async () => {
      const found = emulatedHip("small", { waveSize: 32, memoryBytes: 36 << 20 });
      await using backend = openGpuBackend({ ...found, name: "hip", backendOptions: {} });
      await expect(logitsOf(large, backend)).rejects.toMatchObject({
        code: "BACKEND_MEMORY",
        details: {
          neededBytes: expect.any(Number),
          availableBytes: expect.any(Number),
          weightBytes: expect.any(Number),
          kvCacheBytes: expect.any(Number),
          scratchBytes: expect.any(Number),
        },
      });
      await expect(logitsOf(path, backend)).resolves.toHaveLength(1);
    });

    it("is a GpuError half way through loading, and everything is given back", async () => {
      const found = emulatedHip("fails", { waveSize: 32, failures: ["hipMalloc:9+:2"] });
      await using backend = openGpuBackend({ ...found, name: "hip", backendOptions: {} });
      const before = backend.memory().availableBytes;
      await expect(logitsOf(path, backend)).rejects.toMatchObject({
        code: "GPU_OUT_OF_MEMORY",
        details: { call: "hipMalloc", neededBytes: expect.any(Number), availableBytes: expect.any(Number) },
      });
      expect(before - backend.memory().availableBytes).toBeLessThanOrEqual(32 << 20);
      await using other = openEmulated(32);
      await expect(logitsOf(path, other)).resolves.toHaveLength(1);
    });

    it("refuses a cache that does not fit, and says which would", async () => {
      const found = emulatedHip("small", { waveSize: 32, memoryBytes: 36 << 20 });
      await using backend = openGpuBackend({ ...found, name: "hip", backendOptions: {} });
      const shape = { layers: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64, blockTokens: 32, type: "f16" } as const;
      const refusal = (): unknown => backend.createKvCache({ ...shape, blocks: 4096 });
      expect(refusal).toThrow(expect.objectContaining({ code: "BACKEND_MEMORY" }));
      try {
        refusal();
      } catch (error) {
        const { fittingTokens } = (error as { details: { fittingTokens: number } }).details;
        using cache = backend.createKvCache({ ...shape, blocks: fittingTokens / 32 });
        expect(cache.sizeBytes).toBeGreaterThan(16 << 20);
      }
    });
  });
});
