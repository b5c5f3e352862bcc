// Kernels by file and defines, compiled once and loaded once. Cached code is read from disk; the rest is compiled in
// parallel, each module once even if several callers request it. A module that failed may be requested again.

import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { DisposedError } from "../../../errors.js";
import { Lifetime } from "../../../lifetime.js";
import { type ArgumentLayout, KernelArguments } from "./argument-layout.js";
import type { GpuCompiler, GpuDevice, KernelHandle, ModuleHandle } from "../drivers/shared/driver.js";
import { traced, tracedAsync } from "../drivers/shared/start-trace.js";
import { KernelCache } from "./kernel-cache.js";
import { type Defines, type KernelSource, loadKernelSource } from "./kernel-source.js";

/** Raised when the assembly or compilation of sources changes and the sources do not. */
const KEY_VERSION = 2;
const DEFINE_NAME = /^[A-Za-z_]\w*$/;
/** Values that a compiler's command line cannot misinterpret. */
const DEFINE_VALUE = /^[\w.+-]*$/;

interface KernelProgress {
  /** Number compiled so far, of all that were not on disk. */
  readonly compiled: number;
  readonly total: number;
  /** The file whose compilation has just started or finished. */
  readonly name: string;
}

/** Options of a kernel store. */
export interface KernelStoreOptions {
  readonly cache?: KernelCache;
  readonly onProgress?: (progress: KernelProgress) => void;
  /** Folder of the .hip files; the package's own by default. */
  readonly sourceFolder?: string;
}

/** A kernel file with one set of defines. */
export interface ModuleRequest {
  /** kernels/<file>.hip */
  readonly file: string;
  readonly defines: Defines;
}

/** A kernel that is ready to launch. */
export interface LoadedKernel {
  readonly name: string;
  readonly handle: KernelHandle;
  readonly threads: number;
  readonly layout: ArgumentLayout;
  /** A new argument for this kernel, filled with zeros. */
  createArguments(): KernelArguments;
}

interface LoadedModule {
  readonly source: KernelSource;
  readonly defines: Defines;
  kernel(name: string): LoadedKernel;
}

/** The kernel modules of one device. */
export class KernelStore implements Disposable {
  readonly #device: GpuDevice;
  readonly #compiler: GpuCompiler;
  readonly #cache: KernelCache;
  readonly #onProgress: (progress: KernelProgress) => void;
  readonly #sourceFolder: string | undefined;
  readonly #modules = new Map<string, Promise<LoadedModule>>();
  readonly #handles = new Set<ModuleHandle>();
  readonly #writes = new Set<Promise<void>>();
  readonly #lifetime = new Lifetime("kernel store");
  readonly #ending = new AbortController();
  #compiled = 0;
  #total = 0;

  constructor(
    device: GpuDevice,
    compiler: GpuCompiler,
    { cache = new KernelCache(), onProgress = () => {}, sourceFolder }: KernelStoreOptions = {},
  ) {
    this.#device = device;
    this.#compiler = compiler;
    this.#cache = cache;
    this.#onProgress = onProgress;
    this.#sourceFolder = sourceFolder;
    // One listener for each module that is being compiled.
    setMaxListeners(0, this.#ending.signal);
  }

  /** The cache on disk, also used for other results that are valid for a device. */
  get cache(): KernelCache {
    return this.#cache;
  }

  /** Another store for the same device and cache, whose modules are unloaded without affecting this one's. */
  separate(): KernelStore {
    return new KernelStore(this.#device, this.#compiler, {
      cache: this.#cache,
      ...(this.#sourceFolder === undefined ? {} : { sourceFolder: this.#sourceFolder }),
    });
  }

  /** Loads `kernels/<file>.hip` with these defines; resolves when it is ready to launch. */
  module(file: string, defines: Defines = {}): Promise<LoadedModule> {
    if (this.#lifetime.disposed) return Promise.reject(new DisposedError("kernel store"));
    const name = moduleName({ file, defines });
    const known = this.#modules.get(name);
    if (known !== undefined) return known;
    const module = this.#prepare(file, defines);
    this.#modules.set(name, module);
    // The caller sees the failure; a module that is only prewarmed must not end the process.
    module.catch(() => this.#modules.delete(name));
    return module;
  }

  /** Resolves when everything compiled so far is on disk. */
  async written(): Promise<void> {
    await Promise.all(this.#writes);
  }

  /** Cancels compilations and waits for loads, which need the device. */
  async ended(): Promise<void> {
    const modules = [...this.#modules.values()];
    this[Symbol.dispose]();
    await Promise.allSettled(modules);
    await this.written();
  }

  [Symbol.dispose](): void {
    if (!this.#lifetime.end()) return;
    this.#ending.abort(new DisposedError("kernel store"));
    for (const handle of this.#handles) this.#device.unloadModule(handle);
    this.#handles.clear();
    this.#modules.clear();
  }

  async #prepare(file: string, defines: Defines): Promise<LoadedModule> {
    const source = traced(`source of ${file}`, () => loadKernelSource(file, this.#sourceFolder));
    const { architecture, waveSize } = this.#device.properties;
    checkDefines(defines);
    const key = this.#key(source, defines);
    const kept = await tracedAsync(`cached ${file}`, () => this.#cache.read(key));
    this.#lifetime.assertAlive();
    const loaded = kept === undefined ? undefined : await tracedAsync(`load ${file}`, () => this.#tryLoad(kept));
    if (loaded !== undefined) return this.#loadedModule(source, defines, loaded);
    this.#total++;
    this.#report(file);
    try {
      const code = await this.#compiler.compile(source.text, {
        name: `${file}.hip`,
        architecture,
        waveSize,
        defines,
        signal: this.#ending.signal,
      });
      this.#lifetime.assertAlive();
      const handle = await this.#load(code);
      this.#keep(key, code);
      return this.#loadedModule(source, defines, handle);
    } finally {
      this.#compiled++;
      this.#report(file);
    }
  }

  /**
   * Stores only code that the driver accepted. No caller waits for the disk, and a failed write is a warning at most.
   */
  #keep(key: string, code: Uint8Array): void {
    const write = this.#cache.write(key, code).finally(() => this.#writes.delete(write));
    this.#writes.add(write);
  }

  #key({ digest }: KernelSource, defines: Defines): string {
    const { architecture, waveSize } = this.#device.properties;
    const parts = [
      KEY_VERSION,
      this.#device.kind,
      this.#compiler.identity,
      architecture,
      waveSize,
      definesText(defines),
      digest,
    ];
    return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
  }

  /** Cached code may be intact and still not fit the driver any more: then it is compiled again. */
  async #tryLoad(code: Uint8Array): Promise<ModuleHandle | undefined> {
    try {
      return await this.#load(code);
    } catch {
      this.#lifetime.assertAlive();
      return undefined;
    }
  }

  async #load(code: Uint8Array): Promise<ModuleHandle> {
    const handle = await this.#device.loadModule(code);
    if (this.#lifetime.disposed) this.#device.unloadModule(handle);
    this.#lifetime.assertAlive();
    this.#handles.add(handle);
    return handle;
  }

  #loadedModule(source: KernelSource, defines: Defines, module: ModuleHandle): LoadedModule {
    const device = this.#device;
    const kernels = new Map<string, LoadedKernel>();
    const load = (name: string): LoadedKernel => {
      this.#lifetime.assertAlive();
      const { layout, threads } = source.kernel(name);
      const handle = device.kernel(module, name);
      const createArguments = (): KernelArguments =>
        new KernelArguments(device.createArguments(layout.sizeBytes), layout);
      return {
        name,
        handle,
        layout,
        threads: source.constant(threads, { WAVE: device.properties.waveSize, ...defines }),
        createArguments,
      };
    };
    return {
      source,
      defines,
      kernel(name) {
        const kernel = kernels.get(name) ?? load(name);
        kernels.set(name, kernel);
        return kernel;
      },
    };
  }

  #report(name: string): void {
    this.#onProgress({ compiled: this.#compiled, total: this.#total, name });
  }
}

/** The key of a module: equal for equal files and defines. */
export function moduleName({ file, defines }: ModuleRequest): string {
  return `${file} ${definesText(defines)}`;
}

function definesText(defines: Defines): string {
  return Object.keys(defines)
    .sort()
    .map((name) => `${name}=${defines[name]}`)
    .join(" ");
}

function checkDefines(defines: Defines): void {
  for (const [name, value] of Object.entries(defines)) {
    if (!DEFINE_NAME.test(name) || !DEFINE_VALUE.test(String(value)))
      throw new TypeError(`not a define: ${name}=${value}`);
  }
}
