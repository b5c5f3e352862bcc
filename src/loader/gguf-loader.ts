// Lazy access to a model's tensors: a handle costs nothing, the first use loads, later uses share the loaded tensor.
// The file stays open as long as the loader lives; disposal waits for loads in progress, then frees device memory
// before it closes the file.

import type { Backend, TensorSource } from "../backends/contract.js";
import { DisposedError, TensorError } from "../errors.js";
import { GgufFile, type GgufTensor } from "../gguf/file.js";
import { Lifetime } from "../lifetime.js";
import { nearestNames } from "../nearest.js";
import { optionalCount, refuseUnknownKeys, refuseValue } from "../options.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";
import type { DeviceTensor } from "../tensor/device-tensor.js";
import { LazyTensor, type LazyTensorObserver } from "../tensor/lazy-tensor.js";
import { DeviceCache, type TensorPin } from "./device-cache.js";
import type { LoadingProgress, LoadingStats } from "./loading-stats.js";
import { readStack, stackExperts, type StackedTensor } from "./stacked-tensors.js";
import { uploadWithinBudget } from "./tensor-upload.js";
import { asFloats, floatSource } from "./widened-tensor.js";

/** Loads in flight during a prefetch: enough to keep reading while another tensor is being uploaded. */
const DEFAULT_PREFETCH_CONCURRENCY = 2;
const MAX_PREFETCH_CONCURRENCY = 256;
/** How many tensors ahead the operating system is asked to read. */
const READ_AHEAD_TENSORS = 4;

/** Options of a loader. */
export interface GgufLoaderOptions {
  /** The most device memory for cached tensors; unlimited by default. */
  readonly cacheBudgetBytes?: number;
  readonly mapping?: "auto" | "off";
  /** The path of a file with further blocks of the model. */
  readonly extension?: string;
}

/** How a tensor is used. */
interface LazyOptions {
  /** Whether a device leaves it in host memory, because only single rows of it are read. */
  readonly onHost?: boolean;
  /** Whether a backend that `widensGates` gets it as F32. */
  readonly isGate?: boolean;
}

/** How tensors are prefetched. */
interface PrefetchOptions {
  readonly concurrency?: number;
  readonly signal?: AbortSignal;
}

/** Called after each tensor that reaches the device. */
type ProgressListener = (progress: LoadingProgress) => void;

/** Loads a model's tensors to a backend on first use; owns the open file and the device cache. */
export class GgufLoader implements AsyncDisposable {
  readonly file: GgufFile;
  /** The tensors of the file by name, and stacks of those that its converter wrote one by one. */
  readonly tensors: ReadonlyMap<string, TensorDescriptor>;
  readonly cache: DeviceCache;
  readonly #stacks: ReadonlyMap<string, StackedTensor>;
  readonly #lifetime = new Lifetime("the model loader");
  readonly #handles = new Map<Backend, Map<string, LazyTensor>>();
  readonly #inFlight = new Set<Promise<unknown>>();
  readonly #listeners = new Set<ProgressListener>();
  readonly #dependents = new Set<AsyncDisposable>();
  /** Progress over every handle created so far, updated as they change: a report must not visit all of them. */
  readonly #progress = { loadedTensors: 0, totalTensors: 0, loadedBytes: 0, totalBytes: 0 };
  readonly #observer: LazyTensorObserver;
  /** Tensors that a backend has as F32. */
  readonly #widened = new Set<string>();
  #closing: Promise<void> | undefined;

  constructor(file: GgufFile, options: GgufLoaderOptions = {}) {
    refuseUnknownKeys("loader", options, ["cacheBudgetBytes", "mapping", "extension"]);
    const { cacheBudgetBytes = Number.POSITIVE_INFINITY } = options;
    if (typeof cacheBudgetBytes !== "number" || !(cacheBudgetBytes >= 0)) {
      refuseValue("loader", "cacheBudgetBytes", "a number of bytes", cacheBudgetBytes);
    }
    this.file = file;
    this.#stacks = stackExperts(file.tensors);
    this.tensors =
      this.#stacks.size === 0
        ? file.tensors
        : new Map<string, TensorDescriptor>([
            ...file.tensors,
            ...Array.from(this.#stacks, ([name, { descriptor }]) => [name, descriptor] as const),
          ]);
    this.cache = new DeviceCache(cacheBudgetBytes);
    this.#observer = this.#observe(this.cache);
  }

  static async open(path: string, options: GgufLoaderOptions = {}): Promise<GgufLoader> {
    const { mapping, extension } = options;
    const file = await GgufFile.open(path, {
      ...(mapping === undefined ? {} : { mapping }),
      ...(extension === undefined ? {} : { extension }),
    });
    try {
      return new GgufLoader(file, options);
    } catch (error) {
      file[Symbol.dispose]();
      throw error;
    }
  }

  has(name: string): boolean {
    return this.tensors.has(name);
  }

  /** Whether a tensor's bytes can be used where the file is mapped. */
  isMapped(name: string): boolean {
    return this.file.mappingState.mapped && !this.#stacks.has(name) && !this.#widened.has(name);
  }

  /**
   * The one handle on a tensor for a backend, with the options of its first request. Nothing is loaded until its `load`
   * is called.
   */
  lazy(name: string, backend: Backend, { onHost = false, isGate = false }: LazyOptions = {}): LazyTensor {
    this.#lifetime.assertAlive();
    const stored = this.#tensor(name);
    const floats = isGate && backend.widensGates === true ? asFloats(stored) : undefined;
    const tensor = onHost ? { ...stored, onHost } : (floats ?? stored);
    const handles = this.#handles.get(backend) ?? new Map<string, LazyTensor>();
    this.#handles.set(backend, handles);
    const known = handles.get(name);
    if (known !== undefined) return known;
    const handle: LazyTensor = new LazyTensor(tensor, () => this.#load(handle, tensor, backend), this.#observer);
    handles.set(name, handle);
    if (tensor === floats) this.#widened.add(name);
    this.#progress.totalTensors++;
    this.#progress.totalBytes += tensor.sizeBytes;
    return handle;
  }

  loadTensorToGpu(name: string, backend: Backend): Promise<DeviceTensor> {
    return this.lazy(name, backend).load();
  }

  /** Frees every tensor that no live plan has pinned; returns the bytes freed. */
  clearGpuCache(): number {
    return this.cache.clear();
  }

  pin(tensors: readonly LazyTensor[]): TensorPin {
    this.#lifetime.assertAlive();
    return this.cache.pin(tensors);
  }

  /**
   * Registers a user of this loader's tensors, which is disposed before they are. Call the returned function when
   * `dependent` has been disposed on its own.
   */
  register(dependent: AsyncDisposable): () => void {
    this.#lifetime.assertAlive();
    this.#dependents.add(dependent);
    return () => this.#dependents.delete(dependent);
  }

  /**
   * Loads tensors in the given order, a few at a time. Rejects with the first failure, after the other loads have
   * ended.
   */
  async prefetch(tensors: readonly LazyTensor[], options: PrefetchOptions = {}): Promise<void> {
    const { signal } = options;
    const concurrency =
      optionalCount("prefetch", "concurrency", options.concurrency, 1, MAX_PREFETCH_CONCURRENCY) ??
      DEFAULT_PREFETCH_CONCURRENCY;
    let next = 0;
    let advised = 0;
    let failed = false;
    const worker = async (): Promise<void> => {
      while (next < tensors.length && !failed && signal?.aborted !== true) {
        const index = next++;
        for (; advised < Math.min(tensors.length, index + READ_AHEAD_TENSORS); advised++)
          this.#readAhead(tensors[advised]);
        try {
          await tensors[index].load();
        } catch (error) {
          failed = true;
          throw error;
        }
      }
    };
    const outcomes = await Promise.allSettled(Array.from({ length: concurrency }, worker));
    const failure = outcomes.find((outcome) => outcome.status === "rejected");
    if (failure !== undefined) throw failure.reason;
    signal?.throwIfAborted();
  }

  /** Statistics of the given tensors, or of every handle created so far. */
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

  /** Calls back after each tensor that arrives; the returned function unsubscribes. */
  onProgress(listener: ProgressListener): () => void {
    if (typeof listener !== "function") refuseValue("loader", "onProgress", "a function", listener);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#lifetime.end();
    await Promise.allSettled([...this.#dependents].map((dependent) => dependent[Symbol.asyncDispose]()));
    await Promise.allSettled(this.#inFlight);
    this.cache.close();
    this.#handles.clear();
    this.file[Symbol.dispose]();
  }

  #tensor(name: string): TensorDescriptor {
    const tensor = this.tensors.get(name);
    if (tensor !== undefined) return tensor;
    const nearest = nearestNames(name, this.tensors.keys());
    throw new TensorError(
      "TENSOR_MISSING",
      `[loader] the model has no tensor "${name}"; it has ${this.tensors.size}${nearest.length === 0 ? "" : `, the nearest: ${nearest.join(", ")}`}`,
      { details: { name, nearest } },
    );
  }

  #load(handle: LazyTensor, tensor: TensorDescriptor, backend: Backend): Promise<DeviceTensor> {
    if (this.#lifetime.disposed) return Promise.reject(new DisposedError("the model loader"));
    const load = uploadWithinBudget(handle, this.#source(tensor), backend, this.cache);
    this.#inFlight.add(load);
    const settled = (): unknown => this.#inFlight.delete(load);
    load.then(settled, settled);
    return load;
  }

  #source(descriptor: TensorDescriptor): TensorSource {
    const stored = this.#tensor(descriptor.name);
    return descriptor.layout === stored.layout
      ? this.#storedSource(descriptor)
      : floatSource(descriptor, this.#storedSource(stored));
  }

  #storedSource(descriptor: TensorDescriptor): TensorSource {
    const { file } = this;
    const stack = this.#stacks.get(descriptor.name);
    if (stack !== undefined) {
      const read = file.readTensor.bind(file);
      return {
        descriptor,
        read: (target, byteOffset) => readStack(stack, target, byteOffset, read),
        mappedLocation: () => undefined,
      };
    }
    const tensor = file.tensors.get(descriptor.name) as GgufTensor;
    return {
      descriptor,
      read: (target, byteOffset) => file.readTensor(tensor, target, byteOffset),
      mappedLocation: () => {
        const mapping = file.mapping(tensor.part);
        return mapping === undefined ? undefined : { mapping, byteOffset: tensor.offset };
      },
    };
  }

  #readAhead({ state, descriptor }: LazyTensor): void {
    if (state !== "unloaded" || descriptor.onHost === true) return;
    const tensor = this.file.tensors.get(descriptor.name);
    const parts = tensor === undefined ? (this.#stacks.get(descriptor.name)?.parts ?? []) : [tensor];
    for (const part of parts) this.file.adviseWillNeed(part);
  }

  /** Forwards to the cache's bookkeeping, and updates the loader's own. */
  #observe(cache: DeviceCache): LazyTensorObserver {
    const count = (tensors: 1 | -1, { descriptor }: LazyTensor): void => {
      this.#progress.loadedTensors += tensors;
      this.#progress.loadedBytes += tensors * descriptor.sizeBytes;
    };
    return {
      onHit: (tensor) => cache.onHit(tensor),
      onMiss: () => cache.onMiss(),
      onShared: () => cache.onShared(),
      onResident: (tensor) => {
        cache.onResident(tensor);
        count(1, tensor);
        this.#report(tensor.descriptor.name);
      },
      onEvicted: (tensor) => {
        cache.onEvicted(tensor);
        count(-1, tensor);
      },
      mayEvict: (tensor) => cache.mayEvict(tensor),
    };
  }

  /** An exception in a listener does not fail the load, which has succeeded. */
  #report(tensor: string): void {
    for (const listener of this.#listeners) {
      try {
        listener({ tensor, ...this.#progress });
      } catch (error) {
        process.emitWarning(error instanceof Error ? error : String(error));
      }
    }
  }

  *#allHandles(): IterableIterator<LazyTensor> {
    for (const handles of this.#handles.values()) yield* handles.values();
  }
}
