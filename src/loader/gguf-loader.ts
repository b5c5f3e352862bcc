// Lazy access to a model's tensors: a handle costs nothing, the first use loads, later uses share what is there.
// The file stays open as long as the loader lives; disposing waits for loads under way, then frees device memory
// before it closes the file.

import type { Backend, TensorSource } from "../backends/contract.js";
import { RocmForgeError, TensorError } from "../errors.js";
import { GgufFile, type GgufTensor } from "../gguf/file.js";
import { requireSupported } from "../gguf/tensor-index.js";
import { Lifetime } from "../lifetime.js";
import { nearestNames } from "../nearest.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";
import type { DeviceTensor } from "../tensor/device-tensor.js";
import { LazyTensor, type LazyTensorObserver } from "../tensor/lazy-tensor.js";
import { DeviceCache, type TensorPin } from "./device-cache.js";
import type { LoadingProgress, LoadingStats } from "./loading-stats.js";

/** Loads in flight during a prefetch: enough to keep reading while another tensor is being uploaded. */
const DEFAULT_PREFETCH_CONCURRENCY = 2;
/** How many tensors ahead the operating system is asked to read. */
const READ_AHEAD_TENSORS = 4;

export interface GgufLoaderOptions {
  /** The most device memory that cached tensors may take; no limit by default. */
  readonly cacheBudgetBytes?: number;
  readonly mapping?: "auto" | "off";
}

export interface PrefetchOptions {
  readonly concurrency?: number;
  readonly signal?: AbortSignal;
}

export type ProgressListener = (progress: LoadingProgress) => void;

export class GgufLoader implements AsyncDisposable {
  readonly file: GgufFile;
  readonly cache: DeviceCache;
  readonly #lifetime = new Lifetime("the model loader");
  readonly #handles = new Map<Backend, Map<string, LazyTensor>>();
  readonly #inFlight = new Set<Promise<unknown>>();
  readonly #listeners = new Set<ProgressListener>();
  readonly #observer: LazyTensorObserver = {
    onHit: (tensor) => this.cache.countHit(tensor),
    onMiss: () => this.cache.countMiss(),
    onShared: () => this.cache.countShared(),
    onResident: (tensor) => this.#report(tensor.descriptor.name),
  };

  constructor(file: GgufFile, options: GgufLoaderOptions = {}) {
    this.file = file;
    this.cache = new DeviceCache(options.cacheBudgetBytes);
  }

  static async open(path: string, options: GgufLoaderOptions = {}): Promise<GgufLoader> {
    const { mapping } = options;
    return new GgufLoader(await GgufFile.open(path, mapping === undefined ? {} : { mapping }), options);
  }

  has(name: string): boolean {
    return this.file.tensors.has(name);
  }

  /** What the file says of a tensor; reads none of its bytes. */
  descriptor(name: string): TensorDescriptor {
    return this.#tensor(name);
  }

  /** The one handle on a tensor for a backend. Nothing is loaded until somebody calls its `load`. */
  lazy(name: string, backend: Backend): LazyTensor {
    this.#lifetime.assertAlive();
    const tensor = this.#tensor(name);
    const handles = this.#handles.get(backend) ?? new Map<string, LazyTensor>();
    this.#handles.set(backend, handles);
    const known = handles.get(name);
    if (known !== undefined) return known;
    const handle: LazyTensor = new LazyTensor(tensor, () => this.#load(handle, tensor, backend), this.#observer);
    handles.set(name, handle);
    return handle;
  }

  loadTensorToGpu(name: string, backend: Backend): Promise<DeviceTensor> {
    return this.lazy(name, backend).load();
  }

  /** Frees every tensor that no live plan holds; returns the bytes freed. */
  clearGpuCache(): number {
    return this.cache.clear();
  }

  pin(tensors: readonly LazyTensor[]): TensorPin {
    return this.cache.pin(tensors);
  }

  /** Loads tensors in the given order, a few at a time. Rejects with the first failure, after the others ended. */
  async prefetch(tensors: readonly LazyTensor[], options: PrefetchOptions = {}): Promise<void> {
    const { concurrency = DEFAULT_PREFETCH_CONCURRENCY, signal } = options;
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < tensors.length && signal?.aborted !== true) {
        const index = next++;
        this.#readAhead(tensors, index);
        await tensors[index].load();
      }
    };
    const outcomes = await Promise.allSettled(Array.from({ length: concurrency }, worker));
    const failure = outcomes.find((outcome) => outcome.status === "rejected");
    if (failure !== undefined) throw failure.reason;
    signal?.throwIfAborted();
  }

  /** Of the given tensors, or of every handle made so far. */
  loadingStats(tensors: Iterable<LazyTensor> = this.#allHandles()): LoadingStats {
    const count = { unloaded: 0, loading: 0, resident: 0, failed: 0 };
    let totalBytes = 0;
    let loadedBytes = 0;
    for (const tensor of tensors) {
      count[tensor.state]++;
      totalBytes += tensor.descriptor.sizeBytes;
      if (tensor.state === "resident") loadedBytes += tensor.descriptor.sizeBytes;
    }
    return {
      totalTensors: count.unloaded + count.loading + count.resident + count.failed,
      loadedTensors: count.resident,
      unloadedTensors: count.unloaded,
      loadingTensors: count.loading,
      failedTensors: count.failed,
      cachedTensors: this.cache.tensorCount,
      totalBytes,
      loadedBytes,
      cachedBytes: this.cache.usedBytes,
    };
  }

  /** Calls back after each tensor that arrives; the returned function stops it. */
  onProgress(listener: ProgressListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#lifetime.end()) return;
    await Promise.allSettled(this.#inFlight);
    for (const handle of this.#allHandles()) handle.evict();
    this.#handles.clear();
    this.file[Symbol.dispose]();
  }

  #tensor(name: string): GgufTensor {
    const tensor = this.file.tensors.get(name);
    if (tensor !== undefined) return tensor;
    const nearest = nearestNames(name, this.file.tensors.keys());
    throw new TensorError(
      "TENSOR_MISSING",
      `[loader] the model has no tensor "${name}"; the nearest of its ${this.file.tensors.size} names: ${nearest.join(", ")}`,
      { details: { name, nearest } },
    );
  }

  #load(handle: LazyTensor, tensor: GgufTensor, backend: Backend): Promise<DeviceTensor> {
    const load = this.#upload(handle, tensor, backend);
    this.#inFlight.add(load);
    const settled = (): unknown => this.#inFlight.delete(load);
    load.then(settled, settled);
    return load;
  }

  async #upload(handle: LazyTensor, tensor: GgufTensor, backend: Backend): Promise<DeviceTensor> {
    this.#lifetime.assertAlive();
    requireSupported(tensor.layout, tensor.name);
    const reservedBytes = backend.residentBytes(tensor);
    const missingBytes = this.cache.reserve(reservedBytes);
    if (missingBytes > 0) throw budgetError(tensor, reservedBytes, missingBytes, this.cache);
    try {
      const device = await backend.upload(this.#source(tensor));
      this.cache.admit(handle, reservedBytes, device.residentBytes);
      return device;
    } catch (error) {
      this.cache.release(reservedBytes);
      if (error instanceof RocmForgeError) throw error;
      throw new TensorError("TENSOR_LOAD", `[loader] loading ${tensor.name} failed: ${String(error)}`, {
        details: { name: tensor.name, backend: backend.description.name },
        cause: error,
      });
    }
  }

  #source(tensor: GgufTensor): TensorSource {
    const { file } = this;
    return {
      descriptor: tensor,
      read: (target, byteOffset) => file.readTensor(tensor, target, byteOffset),
      mappedView: () => file.mappedView(tensor),
    };
  }

  #readAhead(tensors: readonly LazyTensor[], index: number): void {
    for (const ahead of tensors.slice(index, index + READ_AHEAD_TENSORS)) {
      if (ahead.state !== "unloaded") continue;
      const tensor = this.file.tensors.get(ahead.descriptor.name);
      if (tensor !== undefined) this.file.adviseWillNeed(tensor);
    }
  }

  #report(tensor: string): void {
    if (this.#listeners.size === 0) return;
    const { loadedTensors, totalTensors, loadedBytes, totalBytes } = this.loadingStats();
    for (const listener of this.#listeners) {
      listener({ tensor, loadedTensors, totalTensors, loadedBytes, totalBytes });
    }
  }

  *#allHandles(): IterableIterator<LazyTensor> {
    for (const handles of this.#handles.values()) yield* handles.values();
  }
}

function budgetError(tensor: TensorDescriptor, neededBytes: number, missingBytes: number, cache: DeviceCache): TensorError {
  const { budgetBytes, usedBytes } = cache;
  return new TensorError(
    "TENSOR_BUDGET",
    `[loader] ${tensor.name} needs ${neededBytes} bytes on the device, but of the cache's budget of ${budgetBytes} ` +
      `bytes ${usedBytes} are held by live plans: ${missingBytes} bytes are missing. Raise the budget or dispose a plan.`,
    { details: { name: tensor.name, neededBytes, budgetBytes, usedBytes, missingBytes } },
  );
}
