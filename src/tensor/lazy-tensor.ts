// A handle on a tensor that may not be loaded yet.
//   unloaded ── load() ──▶ loading ──▶ resident ── evict() ──▶ unloaded
//                             └──────▶ failed ── load() ──▶ loading (a retry)
// Invariant: however many ask at once, one load runs and all of them get its outcome.

import type { TensorDescriptor } from "./descriptor.js";
import type { DeviceTensor } from "./device-tensor.js";

/** Where a lazy tensor is between not loaded and resident on the device. */
export type LazyTensorState = "unloaded" | "loading" | "resident" | "failed";

/** Notified of each request, arrival and eviction, so that a cache can count, order and refuse them. */
export interface LazyTensorObserver {
  onHit(tensor: LazyTensor): void;
  onMiss(tensor: LazyTensor): void;
  onShared(tensor: LazyTensor): void;
  onResident(tensor: LazyTensor): void;
  onEvicted(tensor: LazyTensor): void;
  /** False while the tensor is pinned. */
  mayEvict(tensor: LazyTensor): boolean;
}

type Phase =
  | { readonly state: "unloaded" }
  | { readonly state: "loading"; readonly promise: Promise<DeviceTensor> }
  | { readonly state: "resident"; readonly tensor: DeviceTensor }
  | { readonly state: "failed"; readonly error: unknown };

const UNLOADED: Phase = { state: "unloaded" };

/** A handle on a tensor that is loaded to the device on first use. */
export class LazyTensor {
  readonly descriptor: TensorDescriptor;
  readonly #loadNow: () => Promise<DeviceTensor>;
  readonly #observer: LazyTensorObserver | undefined;
  #phase: Phase = UNLOADED;

  constructor(descriptor: TensorDescriptor, loadNow: () => Promise<DeviceTensor>, observer?: LazyTensorObserver) {
    this.descriptor = descriptor;
    this.#loadNow = loadNow;
    this.#observer = observer;
  }

  get state(): LazyTensorState {
    return this.#phase.state;
  }

  /** The device tensor if it is loaded; never starts a load. */
  get resident(): DeviceTensor | undefined {
    return this.#phase.state === "resident" ? this.#phase.tensor : undefined;
  }

  /** Why the last load failed, while the state is `failed`. */
  get error(): unknown {
    return this.#phase.state === "failed" ? this.#phase.error : undefined;
  }

  load(): Promise<DeviceTensor> {
    const phase = this.#phase;
    switch (phase.state) {
      case "resident":
        this.#observer?.onHit(this);
        return Promise.resolve(phase.tensor);
      case "loading":
        this.#observer?.onShared(this);
        return phase.promise;
      case "unloaded":
      case "failed":
        this.#observer?.onMiss(this);
        return this.#start();
      default:
        return phase satisfies never;
    }
  }

  /** Frees the device memory and returns its size; does nothing if the tensor is loading or pinned. */
  evict(): number {
    if (this.#phase.state === "failed") this.#phase = UNLOADED;
    if (this.#phase.state !== "resident" || this.#observer?.mayEvict(this) === false) return 0;
    const { tensor } = this.#phase;
    this.#phase = UNLOADED;
    const freedBytes = tensor.residentBytes;
    tensor[Symbol.dispose]();
    this.#observer?.onEvicted(this);
    return freedBytes;
  }

  #start(): Promise<DeviceTensor> {
    const promise = this.#loadNow().then(
      (tensor) => {
        this.#phase = { state: "resident", tensor };
        this.#observer?.onResident(this);
        return tensor;
      },
      (error: unknown) => {
        this.#phase = { state: "failed", error };
        throw error;
      },
    );
    this.#phase = { state: "loading", promise };
    return promise;
  }
}
