// The store over a device and a compiler that only keep count; real ones are in test/gpu/hip.

import { writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../test/support/temporary-folder.js";
import type { CompileOptions, GpuCompiler, GpuDevice, KernelHandle, ModuleHandle } from "../drivers/shared/driver.js";
import { KernelCache } from "./kernel-cache.js";
import { KernelStore, type KernelStoreOptions } from "./kernel-store.js";

const SOURCE = "struct AddArguments {\n  float* out;\n  int count;\n};\nKERNEL(add, AddArguments, 2 * WAVE) {\n}\n";

class FakeDevice {
  readonly kind = "hip";
  readonly properties = { architecture: "gfx1100", waveSize: 32 };
  readonly images: string[] = [];
  readonly unloaded: bigint[] = [];
  refuses: string | undefined;

  loadModule(image: Uint8Array): ModuleHandle {
    const text = Buffer.from(image).toString();
    if (text === this.refuses) throw new TypeError("refused");
    this.images.push(text);
    return BigInt(this.images.length) as ModuleHandle;
  }

  unloadModule(module: ModuleHandle): void {
    this.unloaded.push(module);
  }

  kernel(module: ModuleHandle): KernelHandle {
    return (module * 100n) as KernelHandle;
  }

  createArguments(sizeBytes: number): { readonly view: DataView } {
    return { view: new DataView(new ArrayBuffer(sizeBytes)) };
  }
}

class FakeCompiler implements GpuCompiler {
  identity = "fake 1.0";
  readonly asked: CompileOptions[] = [];
  fails = false;
  hold: Promise<void> = Promise.resolve();

  async compile(_source: string, options: CompileOptions): Promise<Uint8Array> {
    this.asked.push(options);
    await this.hold;
    if (this.fails) throw new TypeError("does not compile");
    return Buffer.from(`code ${options.architecture} ${JSON.stringify(options.defines)} by ${this.identity}`);
  }
}

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
  writeFileSync(folder.file("add.hip"), SOURCE);
});
afterEach(async () => {
  await Promise.all(stores.map((store) => store.written()));
  stores.length = 0;
  folder[Symbol.dispose]();
});

const stores: KernelStore[] = [];

function open(options: KernelStoreOptions = {}, compiler = new FakeCompiler(), device = new FakeDevice()) {
  const cache = new KernelCache(folder.file("cache"));
  const store = new KernelStore(device as unknown as GpuDevice, compiler, {
    cache,
    sourceFolder: folder.path,
    ...options,
  });
  stores.push(store);
  return { store, compiler, device };
}

/** Time for what runs in the background. */
async function aWhile(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 20));
}

describe("KernelStore", () => {
  it("compiles each module once, however many ask and in whatever order its defines are given", async () => {
    const { store, compiler, device } = open();
    const [one, two, three] = await Promise.all([
      store.module("add", { A: 1, B: 2 }),
      store.module("add", { B: 2, A: 1 }),
      store.module("add", { A: 2, B: 2 }),
    ]);
    expect(one).toBe(two);
    expect(three).not.toBe(one);
    expect(compiler.asked).toHaveLength(2);
    expect(device.images).toHaveLength(2);
    const kernel = one.kernel("add");
    expect(kernel).toMatchObject({ name: "add", threads: 64 });
    expect(one.kernel("add")).toBe(kernel);
    expect(kernel.createArguments().set({ out: 16n, count: 3 }).block.view.getInt32(8, true)).toBe(3);
  });

  it("takes what was compiled before from disk, for the same compiler only", async () => {
    const first = open();
    await first.store.module("add");
    await first.store.written();
    const second = open();
    await second.store.module("add");
    expect(second.compiler.asked).toEqual([]);
    expect(second.device.images).toEqual(first.device.images);
    const newer = new FakeCompiler();
    newer.identity = "fake 1.1";
    const third = open({}, newer);
    await third.store.module("add");
    expect(newer.asked).toHaveLength(1);
  });

  it("compiles anew what the driver does not take any more", async () => {
    const first = open();
    await first.store.module("add");
    await first.store.written();
    const device = new FakeDevice();
    device.refuses = first.device.images[0];
    const second = open({}, new FakeCompiler(), device);
    second.compiler.identity = "fake 1.0";
    await expect(second.store.module("add")).rejects.toThrow("refused");
    expect(second.compiler.asked).toHaveLength(1);
  });

  it("lets a failed one be asked for again, and does not end the process over one that nobody awaits", async () => {
    const { store, compiler } = open();
    compiler.fails = true;
    void store.module("add").catch(() => {});
    await expect(store.module("add")).rejects.toThrow("does not compile");
    store.module("add");
    await aWhile();
    compiler.fails = false;
    await expect(store.module("add")).resolves.toBeDefined();
  });

  it("counts what it compiles", async () => {
    const seen: string[] = [];
    const { store } = open({ onProgress: ({ compiled, total }) => void seen.push(`${compiled} of ${total}`) });
    await Promise.all([store.module("add", { A: 1 }), store.module("add", { A: 2 })]);
    expect(seen).toHaveLength(4);
    expect(seen.at(-1)).toBe("2 of 2");
    await store.module("add", { A: 1 });
    expect(seen).toHaveLength(4);
  });

  it("rejects defines that could be taken for something else", async () => {
    const { store } = open();
    for (const defines of [{ "A B": 1 }, { A: "1 -I/" }, { A: 'x"' }, { "": 1 }])
      await expect(store.module("add", defines)).rejects.toThrow(/not a define/);
  });

  it("unloads everything when it is disposed, and loads nothing afterwards", async () => {
    const { store, compiler, device } = open();
    await store.module("add", { A: 1 });
    let release = (): void => {};
    compiler.hold = new Promise((resolve) => {
      release = resolve;
    });
    const late = store.module("add", { A: 2 });
    await aWhile();
    store[Symbol.dispose]();
    store[Symbol.dispose]();
    release();
    await expect(late).rejects.toThrow(/used after it was disposed/);
    await expect(store.module("add", { A: 1 })).rejects.toThrow(/used after it was disposed/);
    expect(device.unloaded).toEqual([1n]);
    expect(device.images).toHaveLength(1);
  });
});
