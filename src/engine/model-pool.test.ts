import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { BackendError, GgufError, GpuError } from "../errors.js";
import { createModelPool, type ModelPoolOptions, type PooledModel } from "./model-pool.js";
import { computeFirstToken } from "./engine.js";
import type { ModelPool } from "./serving.js";

const PATH = fileURLToPath(import.meta.url);

/** Models that take one unit of memory each. */
class Warehouse {
  readonly events: string[] = [];
  readonly lost = new Set<string>();
  loaded = 0;
  /** Loads for which there was no room. */
  refused = 0;

  constructor(readonly room = 10) {}

  pool(options: Partial<ModelPoolOptions> = {}): ModelPool {
    const models = ["a", "b", "c"].map((name) => ({ name, path: PATH }));
    return createModelPool({ models, load: ({ name }) => this.load(name), ...options });
  }

  async load(name: string): Promise<PooledModel> {
    await pause(1);
    if (this.loaded >= this.room) {
      this.refused++;
      throw new BackendError("BACKEND_MEMORY", "no room");
    }
    this.loaded++;
    this.lost.delete(name);
    this.events.push(`+${name}`);
    const isLost = (): boolean => this.lost.has(name);
    const model = {
      engine: { name, contextTokens: 7, statistics: () => ({ running: 0 }) },
      get isLost() {
        return isLost();
      },
      [Symbol.asyncDispose]: async () => {
        await pause(1);
        this.loaded--;
        this.events.push(`-${name}`);
      },
    };
    return model as unknown as PooledModel;
  }
}

const useBriefly = async (model: { readonly name: string }): Promise<string> => model.name;

describe("ModelPool", () => {
  it("lists models, and loads one when it is asked for, once for many", async () => {
    const warehouse = new Warehouse();
    await using pool = warehouse.pool();
    expect(pool.list().map(({ name, state }) => [name, state])).toEqual([
      ["a", "unloaded"],
      ["b", "unloaded"],
      ["c", "unloaded"],
    ]);
    expect(pool.list()[0].created).toBeGreaterThan(1e9);
    const names = Promise.all(["a", "a", "b", "a"].map((name) => pool.with(name, useBriefly)));
    await pause(0);
    expect(pool.list()[0].state).toBe("loading");
    expect(await names).toEqual(["a", "a", "b", "a"]);
    expect(warehouse.events).toEqual(["+a", "+b"]);
    expect(pool.list()[0]).toMatchObject({ state: "loaded", contextTokens: 7 });
    expect([...pool.statistics().keys()]).toEqual(["a", "b"]);
  });

  it("rejects a name that is not there, and names the nearest", async () => {
    await using pool = new Warehouse().pool({ models: [{ name: "fable", path: PATH }] });
    await expect(pool.with("fabel", useBriefly)).rejects.toMatchObject({
      code: "SERVING_MODEL_UNKNOWN",
      message: expect.stringContaining('"fable"'),
    });
  });

  it("rejects a file that is not there, and a name twice", () => {
    const warehouse = new Warehouse();
    expect(() => warehouse.pool({ models: [{ name: "a", path: "/nowhere.gguf" }] })).toThrow(
      expect.objectContaining({ code: "FILE_NOT_FOUND" }),
    );
    const twice = [
      { name: "a", path: PATH },
      { name: "a", path: PATH },
    ];
    expect(() => warehouse.pool({ models: twice })).toThrow(expect.objectContaining({ code: "OPTION_VALUE" }));
  });

  it("unloads the least recently used when another does not fit", async () => {
    const warehouse = new Warehouse(2);
    await using pool = warehouse.pool();
    for (const name of ["a", "b", "a", "c"]) await pool.with(name, useBriefly);
    expect(warehouse.events).toEqual(["+a", "+b", "-b", "+c"]);
  });

  it("unloads none in use, waits until one is left, and lets newcomers to it wait meanwhile", async () => {
    const warehouse = new Warehouse(1);
    await using pool = warehouse.pool();
    let leave: (() => void) | undefined;
    const used = pool.with("a", () => new Promise<void>((resolve) => (leave = resolve)));
    await expect.poll(() => leave).toBeDefined();
    const other = pool.with("b", useBriefly);
    await expect.poll(() => warehouse.refused).toBe(1);
    await pause(10);
    const again = pool.with("a", useBriefly);
    await pause(10);
    expect(warehouse.events).toEqual(["+a"]);
    leave?.();
    expect(await Promise.all([used, other, again])).toEqual([undefined, "b", "a"]);
    expect(warehouse.events).toEqual(["+a", "-a", "+b", "-b", "+a"]);
  });

  it("gives up when all stay in use, and says why", async () => {
    const warehouse = new Warehouse(1);
    await using pool = warehouse.pool({ swapTimeoutMs: 10 });
    await pool.with("a", async () => {
      await expect(pool.with("b", useBriefly)).rejects.toMatchObject({ code: "BACKEND_MEMORY" });
    });
    await using small = new Warehouse().pool({ swapTimeoutMs: 10, maxLoaded: 1 });
    await small.with("a", async () => {
      await expect(small.with("b", useBriefly)).rejects.toMatchObject({ code: "SERVING_QUEUE_FULL" });
    });
    expect(await small.with("b", useBriefly)).toBe("b");
  });

  it("unloads after idle time, and not before", async () => {
    const warehouse = new Warehouse();
    await using pool = warehouse.pool({ idleTimeoutMs: 600 });
    await pool.with("a", async () => {
      await pause(700);
      expect(pool.list()[0].unloadAtMs).toBeUndefined();
    });
    expect(warehouse.events).toEqual(["+a"]);
    const leftMs = (pool.list()[0].unloadAtMs ?? 0) - Date.now();
    expect(leftMs > 0 && leftMs <= 600).toBe(true);
    await expect.poll(() => warehouse.events).toEqual(["+a", "-a"]);
    expect(pool.list()[0].unloadAtMs).toBeUndefined();
    expect(await pool.with("a", useBriefly)).toBe("a");
  });

  it("says which models have failed, and tries them again for those who ask for their health", async () => {
    const warehouse = new Warehouse();
    let fault: Error | undefined = new GgufError("GGUF_TRUNCATED", {
      field: "tensor data",
      expected: "all of it",
      found: "less",
    });
    const load = async ({ name }: { readonly name: string }): Promise<PooledModel> => {
      if (name === "b" && fault !== undefined) throw fault;
      return await warehouse.load(name);
    };
    await using pool = warehouse.pool({ load });
    const states = (): readonly string[] => pool.list().map(({ state }) => state);
    await expect(pool.with("b", useBriefly)).rejects.toBe(fault);
    await pool.with("a", useBriefly);
    expect(states()).toEqual(["loaded", "failed", "unloaded"]);
    fault = undefined;
    warehouse.lost.add("a");
    expect(states()).toEqual(["failed", "failed", "unloaded"]);
    // Not at once, where a load has just failed.
    pool.recover();
    expect(states()).toEqual(["loading", "failed", "unloaded"]);
    expect(await pool.with("b", useBriefly)).toBe("b");
    expect(states()).toEqual(["loaded", "loaded", "unloaded"]);
    expect(warehouse.events).toEqual(["+a", "-a", "+a", "+b"]);
  });

  it("does not call a model failed that others leave no memory for", async () => {
    const warehouse = new Warehouse(0);
    await using pool = warehouse.pool();
    await expect(pool.with("a", useBriefly)).rejects.toMatchObject({ code: "BACKEND_MEMORY" });
    expect(pool.list()[0].state).toBe("unloaded");
  });

  it("loads a model again whose device was lost", async () => {
    const warehouse = new Warehouse();
    await using pool = warehouse.pool();
    await pool.with("a", useBriefly);
    warehouse.lost.add("a");
    await pool.with("a", useBriefly);
    expect(warehouse.events).toEqual(["+a", "-a", "+a"]);
  });

  it("passes on why a model cannot be loaded, and tries again the next time", async () => {
    let count = 0;
    const warehouse = new Warehouse();
    await using pool = warehouse.pool({
      load: ({ name }) => (count++ === 0 ? Promise.reject(new Error("damaged")) : warehouse.load(name)),
    });
    await expect(pool.with("a", useBriefly)).rejects.toThrow("damaged");
    expect(pool.list()[0].state).toBe("failed");
    expect(await pool.with("a", useBriefly)).toBe("a");
  });

  it("tells all who wait for a load that it failed, and tries once for all of them", async () => {
    let loads = 0;
    await using pool = new Warehouse().pool({
      load: async () => {
        loads++;
        await pause(5);
        throw new Error("damaged");
      },
    });
    const results = await Promise.allSettled(["a", "a", "a"].map((name) => pool.with(name, useBriefly)));
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(loads).toBe(1);
  });

  it("makes room for a model whose weights turn out not to fit when they come", async () => {
    const warehouse = new Warehouse();
    // One has room; weights come with the first step.
    const load = async (name: string): Promise<PooledModel> => {
      const model = await warehouse.load(name);
      const step = (): Promise<void> =>
        warehouse.loaded > 1 ? Promise.reject(new GpuError("GPU_OUT_OF_MEMORY", "full")) : Promise.resolve();
      Object.assign(model.engine, { tokenizer: {}, complete: () => ({ summary: step() }) });
      return await computeFirstToken(model);
    };
    await using pool = warehouse.pool({ load: ({ name }) => load(name) });
    expect(await Promise.all([pool.with("a", useBriefly), pool.with("b", useBriefly)])).toEqual(["a", "b"]);
    expect(warehouse.events).toEqual(["+a", "+b", "-b", "-a", "+b"]);
  });

  it("frees everything even where one cannot be, and says so", async () => {
    const warehouse = new Warehouse();
    const pool = warehouse.pool({
      load: async ({ name }) => {
        const model = await warehouse.load(name);
        return name === "a"
          ? Object.assign(model, { [Symbol.asyncDispose]: () => Promise.reject(new Error("stuck")) })
          : model;
      },
    });
    for (const name of ["a", "b", "c"]) await pool.with(name, useBriefly);
    await expect(pool[Symbol.asyncDispose]()).rejects.toThrow("stuck");
    expect(warehouse.events).toEqual(["+a", "+b", "+c", "-b", "-c"]);
  });

  it("lets what runs end when it drains, and takes nothing new", async () => {
    const warehouse = new Warehouse();
    await using pool = warehouse.pool();
    let isDone = false;
    const running = pool.with("a", async () => {
      await pause(20);
      isDone = true;
    });
    await pause(5);
    const drained = pool.drain(10_000);
    await expect(pool.with("a", useBriefly)).rejects.toMatchObject({ code: "SERVING_STOPPING" });
    await drained;
    expect(isDone).toBe(true);
    await running;
  });

  it("stops waiting when the time to drain is up", async () => {
    const pool = new Warehouse().pool();
    let leave!: () => void;
    const running = pool.with("a", () => new Promise<void>((resolve) => (leave = resolve)));
    await pause(10);
    await pool.drain(10);
    leave();
    await running;
    await pool[Symbol.asyncDispose]();
  });

  it("tells of each model that goes, before it is gone", async () => {
    const warehouse = new Warehouse();
    const onUnload = (model: { readonly name: string }): void => void warehouse.events.push(`~${model.name}`);
    const pool = warehouse.pool({ maxLoaded: 1, onUnload });
    await pool.with("a", useBriefly);
    await pool.with("b", useBriefly);
    warehouse.lost.add("b");
    await pool.with("b", useBriefly);
    await pool[Symbol.asyncDispose]();
    expect(warehouse.events).toEqual(["+a", "~a", "-a", "+b", "~b", "-b", "+b", "~b", "-b"]);
  });
});
