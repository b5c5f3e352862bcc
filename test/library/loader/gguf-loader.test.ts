import { truncateSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { DisposedError, GgufError, TensorError } from "../../../src/errors.js";
import { str } from "../../../src/gguf/entry.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import { GgufLoader, type GgufLoaderOptions } from "../../../src/loader/gguf-loader.js";
import type { LoadingProgress } from "../../../src/loader/loading-stats.js";
import { FakeBackend, type FakeTensor } from "../../support/fake-backend.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";

const NAMES = ["blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.1.attn_q.weight", "output_norm.weight"];
const TENSOR_BYTES = 64 * 4;

describe("GgufLoader", () => {
  let folder: TemporaryFolder;
  let path: string;

  beforeAll(async () => {
    folder = new TemporaryFolder();
    path = folder.file("small.gguf");
    await write(path);
  });
  afterAll(() => folder[Symbol.dispose]());

  async function write(target: string): Promise<void> {
    await writeGguf(target, {
      metadata: [str("general.architecture", "none")],
      tensors: NAMES.map((name, index) => ({
        name,
        type: "F32",
        shape: [64],
        data: new Uint8Array(TENSOR_BYTES).fill(index + 1),
      })),
    });
  }

  async function open(
    options: GgufLoaderOptions = {},
    target = path,
  ): Promise<{ loader: GgufLoader; backend: FakeBackend }> {
    return { loader: await GgufLoader.open(target, options), backend: new FakeBackend() };
  }

  it("makes a handle without touching the device", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    const handle = loader.lazy(NAMES[0], backend);
    expect(handle.state).toBe("unloaded");
    expect(handle.resident).toBeUndefined();
    expect(backend.uploads).toEqual([]);
    expect(loader.loadingStats()).toMatchObject({
      totalTensors: 1,
      loadedTensors: 0,
      unloadedTensors: 1,
      cachedTensors: 0,
    });
  });

  it("loads on first use and hits the cache on the second", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    const first = await loader.loadTensorToGpu(NAMES[1], backend);
    const second = await loader.loadTensorToGpu(NAMES[1], backend);
    expect(second).toBe(first);
    expect(backend.uploads).toEqual([NAMES[1]]);
    expect(loader.cache.counts).toMatchObject({ hits: 1, misses: 1, shared: 0 });
    expect(loader.loadingStats()).toMatchObject({
      loadedTensors: 1,
      loadedBytes: TENSOR_BYTES,
      cachedBytes: TENSOR_BYTES,
    });
  });

  it("lets two askers share one load", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    backend.delayMs = 20;
    const handle = loader.lazy(NAMES[0], backend);
    const both = Promise.all([handle.load(), handle.load()]);
    expect(handle.state).toBe("loading");
    const [left, right] = await both;
    expect(left).toBe(right);
    expect(backend.uploads).toHaveLength(1);
    expect(loader.cache.counts.shared).toBe(1);
  });

  it("fails visibly, then succeeds on retry", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    backend.failures = [new Error("cable unplugged")];
    const handle = loader.lazy(NAMES[0], backend);
    await expect(handle.load()).rejects.toMatchObject({ code: "TENSOR_LOAD", cause: new Error("cable unplugged") });
    expect(handle.state).toBe("failed");
    expect(handle.error).toBeInstanceOf(TensorError);
    expect(loader.loadingStats().failedTensors).toBe(1);
    await handle.load();
    expect(handle.state).toBe("resident");
    expect(handle.error).toBeUndefined();
  });

  it("gives all sharers of a failed load the same failure", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    backend.delayMs = 5;
    backend.failures = [new Error("no")];
    const handle = loader.lazy(NAMES[0], backend);
    const outcomes = await Promise.allSettled([handle.load(), handle.load()]);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(backend.uploads).toHaveLength(1);
  });

  it("loads lazily what it would load eagerly", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    for (const [index, name] of NAMES.entries()) {
      const lazy = (await loader.lazy(name, backend).load()) as FakeTensor;
      const eager = new Uint8Array(TENSOR_BYTES);
      const tensor = loader.file.tensors.get(name);
      expect(tensor).toBeDefined();
      if (tensor !== undefined) await loader.file.readTensor(tensor, eager);
      expect(lazy.bytes).toEqual(eager);
      expect(lazy.bytes[0]).toBe(index + 1);
    }
  });

  it("passes a tensor's place in the mapping to the backend, and refuses the address once the file is closed", async () => {
    const { loader, backend } = await open();
    await loader.loadTensorToGpu(NAMES[2], backend);
    const [location] = backend.locations;
    expect(location?.byteOffset).toBe(loader.file.tensors.get(NAMES[2])?.offset);
    expect(location?.mapping.sizeBytes).toBe(loader.file.sizeBytes);
    expect(location?.mapping.address).toBeTypeOf("bigint");
    await loader[Symbol.asyncDispose]();
    expect(() => location?.mapping.address).toThrow(DisposedError);
  });

  it("evicts the least recently used tensor to stay within the budget", async () => {
    const { loader, backend } = await open({ cacheBudgetBytes: 2 * TENSOR_BYTES });
    await using _ = loader;
    await loader.loadTensorToGpu(NAMES[0], backend);
    await loader.loadTensorToGpu(NAMES[1], backend);
    await loader.loadTensorToGpu(NAMES[0], backend);
    await loader.loadTensorToGpu(NAMES[2], backend);
    const states = NAMES.slice(0, 3).map((name) => loader.lazy(name, backend).state);
    expect(states).toEqual(["resident", "unloaded", "resident"]);
    expect(loader.cache.usedBytes).toBe(2 * TENSOR_BYTES);
    expect(loader.cache.counts.evictions).toBe(1);
    expect(backend.live).toBe(2);
  });

  it("never evicts a pinned tensor, and says what is missing instead", async () => {
    const { loader, backend } = await open({ cacheBudgetBytes: TENSOR_BYTES });
    await using _ = loader;
    const held = loader.lazy(NAMES[0], backend);
    const pin = loader.pin([held]);
    await held.load();
    await expect(loader.loadTensorToGpu(NAMES[1], backend)).rejects.toMatchObject({
      code: "TENSOR_BUDGET",
      details: { neededBytes: TENSOR_BYTES, budgetBytes: TENSOR_BYTES, pinnedBytes: TENSOR_BYTES },
    });
    expect(loader.clearGpuCache()).toBe(0);
    expect(held.state).toBe("resident");
    pin[Symbol.dispose]();
    pin[Symbol.dispose]();
    await loader.loadTensorToGpu(NAMES[1], backend);
    expect(held.state).toBe("unloaded");
  });

  it("lets a load wait for the room that another one has set aside", async () => {
    const { loader, backend } = await open({ cacheBudgetBytes: TENSOR_BYTES });
    await using _ = loader;
    backend.delayMs = 10;
    await Promise.all([loader.loadTensorToGpu(NAMES[0], backend), loader.loadTensorToGpu(NAMES[1], backend)]);
    expect(backend.mostInFlight).toBe(1);
    expect(loader.cache.usedBytes).toBe(TENSOR_BYTES);
  });

  it("rejects what could never fit, and evicts nothing for it", async () => {
    const { loader, backend } = await open({ cacheBudgetBytes: TENSOR_BYTES - 1 });
    await using _ = loader;
    await expect(loader.loadTensorToGpu(NAMES[1], backend)).rejects.toMatchObject({ code: "TENSOR_BUDGET" });
    expect(backend.uploads).toEqual([]);
  });

  it("keeps its books when a handle is evicted directly, and refuses to evict a held one", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    const handle = loader.lazy(NAMES[0], backend);
    await handle.load();
    expect(handle.evict()).toBe(TENSOR_BYTES);
    expect(loader.cache.usedBytes).toBe(0);
    await handle.load();
    const pin = loader.pin([handle]);
    expect(handle.evict()).toBe(0);
    expect(handle.state).toBe("resident");
    pin[Symbol.dispose]();
  });

  it("stops a prefetch at the first failure", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    backend.failures = [new Error("first")];
    const handles = NAMES.map((name) => loader.lazy(name, backend));
    await expect(loader.prefetch(handles, { concurrency: 1 })).rejects.toThrow("first");
    expect(backend.uploads).toEqual([NAMES[0]]);
  });

  it("asks the system to read the next tensors soon", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    const advise = vi.spyOn(loader.file, "adviseWillNeed");
    await loader.prefetch(
      NAMES.map((name) => loader.lazy(name, backend)),
      { concurrency: 1 },
    );
    expect(new Set(advise.mock.calls.map(([tensor]) => tensor.name))).toEqual(new Set(NAMES));
  });

  it("does not fail a load because a listener throws", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    const warning = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    loader.onProgress(() => {
      throw new Error("listener");
    });
    await loader.loadTensorToGpu(NAMES[0], backend);
    expect(warning).toHaveBeenCalledWith(new Error("listener"));
    warning.mockRestore();
  });

  it.each([{ cacheBudgetByte: 5 }, { cacheBudgetBytes: Number.NaN }, { cacheBudgetBytes: -1 }, { mapping: "on" }])(
    "rejects the options %j",
    async (options) => {
      await expect(GgufLoader.open(path, options as object)).rejects.toMatchObject({
        code: expect.stringMatching(/^OPTION_/),
      });
    },
  );

  it.each([0, 1.5, Number.POSITIVE_INFINITY])("rejects a prefetch of %d at a time", async (concurrency) => {
    const { loader } = await open();
    await using _ = loader;
    await expect(loader.prefetch([], { concurrency })).rejects.toMatchObject({ code: "OPTION_VALUE" });
  });

  it("gives a failed load's room back", async () => {
    const { loader, backend } = await open({ cacheBudgetBytes: TENSOR_BYTES });
    await using _ = loader;
    backend.failures = [new Error("no")];
    await expect(loader.loadTensorToGpu(NAMES[0], backend)).rejects.toThrow("no");
    await loader.loadTensorToGpu(NAMES[1], backend);
    expect(loader.cache.usedBytes).toBe(TENSOR_BYTES);
  });

  it("evicts unpinned tensors", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    await loader.prefetch(NAMES.map((name) => loader.lazy(name, backend)));
    expect(loader.clearGpuCache()).toBe(NAMES.length * TENSOR_BYTES);
    expect(backend.live).toBe(0);
    expect(loader.loadingStats()).toMatchObject({ loadedTensors: 0, cachedTensors: 0, cachedBytes: 0 });
  });

  it("prefetches in order, a few at a time, and reports progress", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    backend.delayMs = 2;
    const seen: LoadingProgress[] = [];
    const stop = loader.onProgress((progress) => seen.push(progress));
    await loader.prefetch(
      NAMES.map((name) => loader.lazy(name, backend)),
      { concurrency: 2 },
    );
    expect(backend.uploads).toEqual(NAMES);
    expect(backend.mostInFlight).toBe(2);
    expect(seen.at(-1)).toMatchObject({ loadedTensors: NAMES.length, totalTensors: NAMES.length });
    stop();
    loader.clearGpuCache();
    await loader.loadTensorToGpu(NAMES[0], backend);
    expect(seen).toHaveLength(NAMES.length);
  });

  it("stops prefetching when aborted", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    const controller = new AbortController();
    loader.onProgress(() => controller.abort());
    const handles = NAMES.map((name) => loader.lazy(name, backend));
    await expect(loader.prefetch(handles, { concurrency: 1, signal: controller.signal })).rejects.toThrow(/abort/i);
    expect(backend.uploads.length).toBeLessThan(NAMES.length);
  });

  it("names the nearest tensors for one that is not there", async () => {
    const { loader, backend } = await open();
    await using _ = loader;
    const call = (): unknown => loader.lazy("blk.0.attn_g.weight", backend);
    expect(call).toThrow(TensorError);
    expect(call).toThrow(/blk\.0\.attn_k\.weight, blk\.0\.attn_q\.weight/);
  });

  it("refuses to read a file that has shrunk, and reads it again once it is whole", async () => {
    const shrunk = folder.file("shrinks.gguf");
    await write(shrunk);
    const { loader, backend } = await open({}, shrunk);
    await using _ = loader;
    const size = loader.file.sizeBytes;
    truncateSync(shrunk, size - 128);
    const last = loader.lazy(NAMES[3], backend);
    await expect(last.load()).rejects.toMatchObject({ code: "GGUF_TRUNCATED" });
    expect(last.error).toBeInstanceOf(GgufError);
    truncateSync(shrunk, size);
    await last.load();
  });

  it("waits for loads under way before it closes, frees everything, and refuses use after", async () => {
    const { loader, backend } = await open();
    backend.delayMs = 20;
    const loading = loader.loadTensorToGpu(NAMES[0], backend);
    const handle = loader.lazy(NAMES[0], backend);
    await loader[Symbol.asyncDispose]();
    await loading;
    expect(backend.live).toBe(0);
    expect(() => loader.lazy(NAMES[1], backend)).toThrow(DisposedError);
    await expect(handle.load()).rejects.toThrow(DisposedError);
    await loader[Symbol.asyncDispose]();
  });
});
