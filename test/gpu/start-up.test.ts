// What happens while a device is still being opened, and what waits for it: the order of events on the way to a first token.

import { describe, expect, it, vi } from "vitest";
import { createGpuBackend } from "../../src/backends/gpu/backend.js";
import type { GpuDevice } from "../../src/backends/gpu/drivers/shared/driver.js";
import { GgufFile } from "../../src/gguf/file.js";
import { Model } from "../../src/model/model.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";
import { VocabularyWorker } from "../../src/tokenizer/vocabulary-worker.js";
import { openModel, promptStep } from "./random-models.js";
import { SilentCompiler, SilentDriver } from "./silent-driver.js";
import { useSilentModel } from "./silent-model.js";

const { path } = useSilentModel("off");

/** A driver whose devices cannot be used until `finish` is called; kernels count among the events once they are loaded. */
class SlowDriver extends SilentDriver {
  readonly ready: Promise<void>;
  finish!: () => void;
  prepared: number | undefined;

  constructor() {
    super();
    this.ready = new Promise((resolve) => (this.finish = resolve));
  }

  async prepare(index: number): Promise<void> {
    this.prepared = index;
    await this.ready;
  }

  override open(): GpuDevice {
    const [device, { calls, ready }] = [super.open(), this];
    return new Proxy(device, {
      get(target, name) {
        if (name === "whenReady") return () => ready;
        if (name !== "loadModule") return Reflect.get(target, name) as unknown;
        return async (image: Uint8Array) => {
          calls.set("asked for a module", (calls.get("asked for a module") ?? 0) + 1);
          await ready;
          return await target.loadModule(image);
        };
      },
    });
  }
}

function start() {
  const [driver, compiler] = [new SlowDriver(), new SilentCompiler()];
  return { driver, compiler, backend: createGpuBackend({ driver, compiler, name: "cuda", backendOptions: {} }) };
}

/** Until it is so; a test that waits in vain ends by its time limit. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe("while the device is being opened", () => {
  it("a plan is drafted, lowered and its kernels are compiled, and nothing is asked of the device", async () => {
    const { driver, compiler, backend } = start();
    await using model = await openModel(path, backend);
    await using _ = backend;
    expect(driver.prepared).toBe(0);
    expect(model.plan.program.weights.length).toBeGreaterThan(0);
    await until(() => compiler.asked.length > 3 && driver.calls.has("asked for a module"));
    expect([...driver.calls.keys()]).toEqual(["asked for a module"]);
    driver.finish();
    await until(() => (driver.calls.get("loadModule") ?? 0) > 3);
    expect(model.plan.loadingStats().loadedTensors + model.plan.loadingStats().loadingTensors).toBe(0);
  });

  it("a model is not given, and a first prompt's weights and kernels come as soon as it is there", async () => {
    const { driver, compiler, backend } = start();
    let opened = false;
    const opening = Model.open(path, Promise.resolve(backend), { firstPrompt: "Once" }).then((model) => {
      opened = true;
      return model;
    });
    await until(() => compiler.asked.length > 3);
    expect(opened).toBe(false);
    expect([...driver.calls.keys()].filter((call) => call !== "asked for a module")).toEqual([]);
    driver.finish();
    await using model = await opening;
    await until(() => model.loadingStats().loadedTensors === model.loadingStats().totalTensors);
    expect(driver.calls.get("copyToDevice")).toBeGreaterThan(0);
  });

  it("a first prompt's kernels and the memory of its step are there before the weights, and the step asks for neither", async () => {
    const { driver, compiler, backend } = start();
    driver.finish();
    // About twenty tokens, whatever the vocabulary.
    const firstPrompt = "Once upon a time there was a model that began at once, and then";
    await using model = await Model.open(path, Promise.resolve(backend), { firstPrompt });
    await until(() => model.loadingStats().loadedTensors === model.loadingStats().totalTensors);
    expect(driver.calls.get("allocateHost")).toBeGreaterThanOrEqual(3);
    using cache = model.plan.createKvCache();
    const asked = compiler.asked.length;
    const pinned = driver.calls.get("allocateHost");
    await model.plan.step(promptStep(17), cache);
    expect(driver.calls.get("launch")).toBeGreaterThan(0);
    expect(compiler.files(asked)).toEqual([]);
    expect(driver.calls.get("allocateHost")).toBe(pinned);
  });

  it.each([
    ["a thread decodes", 30_000, undefined],
    ["no thread decodes in time", 50, new URL("data:text/javascript,for (;;);")],
  ])("a first prompt finds the vocabulary that %s", async (_, limitMs, module) => {
    const { driver, backend } = start();
    let taken: unknown;
    const started = vi.spyOn(VocabularyWorker, "startFor").mockImplementation((file) => {
      const thread = new VocabularyWorker(file, limitMs, module);
      const take = thread.take.bind(thread);
      vi.spyOn(thread, "take").mockImplementation((identity) => (taken = take(identity)) as ReturnType<typeof take>);
      return thread;
    });
    const opening = Model.open(path, Promise.resolve(backend), { firstPrompt: "Once" });
    setTimeout(() => driver.finish(), 100);
    await using model = await opening;
    expect(started).toHaveBeenCalledExactlyOnceWith(path);
    started.mockRestore();
    using file = await GgufFile.open(path, { mapping: "off" });
    const expected = createTokenizer(file.metadata).encode("Once upon a time");
    expect(model.tokenize("Once upon a time")).toEqual(expected);
    expect(taken === undefined).toBe(module !== undefined);
  });

  it("a model that nobody has a prompt for yet loads no weights, and starts no thread for its vocabulary", async () => {
    const started = vi.spyOn(VocabularyWorker, "startFor");
    const { driver, backend } = start();
    const opening = Model.open(path, Promise.resolve(backend));
    driver.finish();
    await using model = await opening;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(model.loadingStats()).toMatchObject({ loadedTensors: 0, loadingTensors: 0 });
    expect(driver.calls.get("copyToDevice")).toBeUndefined();
    expect(started).not.toHaveBeenCalled();
  });

  it("weights that will not fit are not begun with", async () => {
    const { driver, backend } = start();
    driver.finish();
    await using model = await openModel(path, backend);
    await using _ = backend;
    vi.spyOn(backend, "memory").mockReturnValue({ totalBytes: 1000, availableBytes: 1000 });
    await model.plan.preload();
    expect(model.plan.loadingStats()).toMatchObject({ loadedTensors: 0, loadingTensors: 0 });
    vi.restoreAllMocks();
    await model.plan.preload();
    expect(model.plan.loadingStats().loadedTensors).toBeGreaterThan(0);
  });

  it("a backend that does not even start is an error of opening", async () => {
    const refusal = new Error("no driver");
    await expect(Model.open(path, Promise.reject(refusal), { firstPrompt: "Once" })).rejects.toBe(refusal);
  });

  it("a device that cannot be used after all is an error of opening, and everything is let go", async () => {
    const { driver, backend } = start();
    driver.finish();
    const refusal = new Error("no context");
    vi.spyOn(backend, "ready").mockRejectedValue(refusal);
    const disposed = vi.spyOn(backend, Symbol.asyncDispose as never);
    await expect(Model.open(path, Promise.resolve(backend), { firstPrompt: "Once" })).rejects.toBe(refusal);
    expect(disposed).toHaveBeenCalled();
  });
});
