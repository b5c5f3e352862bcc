// State that all parts of the backend share on one device: its memory, kernels and copies, and whether it is lost. Once
// the device is lost, later calls fail with the original error, and nothing is freed any more.

import { GpuError } from "../../../errors.js";
import { CopyQueue } from "./copy-queue.js";
import { type DeviceBlock, DeviceMemory } from "./device-memory.js";
import type { GpuDevice, PinnedMemory, StreamHandle } from "../drivers/shared/driver.js";
import { gpuError } from "../drivers/shared/gpu-error.js";
import type { KernelStore } from "../kernels/kernel-store.js";
import { LoadMarks } from "../drivers/shared/load-timings.js";
import { traced } from "../drivers/shared/start-trace.js";

/** Bytes that are repacked at a time if they are copied from mapped pages. */
const MAPPED_STAGING_BYTES = 32 << 20;
/** Bytes that are read into pinned memory, and repacked, at a time. */
export const PINNED_CHUNK_BYTES = 8 << 20;

/** Optional accelerations: captured graphs and the vendor's BLAS library. */
type Shortcut = "graphs" | "blas";

const SHORTCUTS: Readonly<
  Record<Shortcut, { readonly code: string; readonly what: string; readonly instead: string }>
> = {
  graphs: {
    code: "ROCMFORGE_GRAPHS",
    what: "captured graphs are disabled",
    instead: "steps run launch by launch, which is slower",
  },
  blas: {
    code: "ROCMFORGE_LIBRARY",
    what: "the BLAS library is disabled",
    instead: "large matmuls run on this package's own kernels",
  },
};

/** One device's memory, kernels and copy queue, shared by tensors, caches and programs. */
export class GpuRuntime implements Disposable {
  readonly device: GpuDevice;
  readonly memory: DeviceMemory;
  readonly kernels: KernelStore;
  readonly copies: CopyQueue;
  readonly marks = new LoadMarks();
  /** Number of tensors freed so far: code that holds addresses of weights looks them up again when this changes. */
  departures = 0;
  #clearing: StreamHandle | undefined;
  #staging: DeviceBlock | undefined;
  #loss: GpuError | undefined;
  readonly #givenUp = new Map<Shortcut, string>();
  readonly #notices: string[] = [];
  /** Pinned memory that was allocated before it is needed. */
  readonly #pinned: PinnedMemory[] = [];
  #disposed = false;

  /** Makes no calls, because the device may still be opening. */
  constructor(device: GpuDevice, kernels: KernelStore, { slabs }: { readonly slabs: boolean }) {
    this.device = device;
    this.kernels = kernels;
    this.memory = new DeviceMemory(device, { slabs });
    this.copies = new CopyQueue(device);
  }

  /** The stream for clearing memory, which does not wait for uploads. */
  get clearing(): StreamHandle {
    this.#clearing ??= this.device.createStream();
    return this.#clearing;
  }

  get stagingBytes(): number {
    return this.device.registersReadOnly ? MAPPED_STAGING_BYTES : PINNED_CHUNK_BYTES;
  }

  /** Memory through which uploads pass, in the order of the copy stream. */
  staging(): DeviceBlock {
    this.#staging ??= this.allocate("staging memory for weights", this.stagingBytes);
    return this.#staging;
  }

  /** Bytes that staging memory may still need. */
  get unstagedBytes(): number {
    return this.#staging === undefined ? this.stagingBytes : 0;
  }

  /**
   * Allocates memory; the error for a lack of memory names its purpose `what`. `apart`: it comes and goes, so that it
   * should not be among weights.
   */
  allocate(what: string, sizeBytes: number, { apart = false } = {}): DeviceBlock {
    try {
      return apart ? this.memory.allocateApart(sizeBytes) : this.memory.allocate(sizeBytes);
    } catch (error) {
      throw this.#noRoom(what, sizeBytes, error);
    }
  }

  /** Pinned memory of this size: one that was reserved, or a new one. */
  allocateHost(sizeBytes: number): PinnedMemory {
    const index = this.#pinned.findIndex(({ bytes }) => bytes.byteLength === sizeBytes);
    return index === -1 ? this.device.allocateHost(sizeBytes) : this.#pinned.splice(index, 1)[0];
  }

  /**
   * Allocates device memory for blocks and pinned memory of these sizes before weights arrive: the driver makes
   * allocations wait while it registers pages. What it refuses is left to the caller that needs it, who reports it.
   */
  reserve(blocks: readonly number[], pinned: readonly number[]): void {
    if (!this.isUsable) return;
    traced("driver: reserve device memory", () => this.memory.reserve(blocks));
    try {
      traced("driver: reserve pinned memory", () => {
        for (const sizeBytes of pinned) this.#pinned.push(this.device.allocateHost(sizeBytes));
      });
    } catch (error) {
      this.noticed(error);
    }
  }

  /** The device's name in messages. */
  get place(): string {
    return `${this.device.kind} device ${this.device.properties.index}`;
  }

  get isUsable(): boolean {
    return !this.#disposed && this.#loss === undefined;
  }

  assertUsable(): void {
    if (this.#loss === undefined) return;
    throw gpuError({
      kind: "device lost",
      place: this.place,
      what: `the device was lost earlier: ${this.#loss.message}`,
      details: this.#loss.details,
      cause: this.#loss,
    });
  }

  /** Remembers a lost device; returns the error for throwing. */
  noticed(error: unknown): unknown {
    if (error instanceof GpuError && error.code === "GPU_DEVICE_LOST") this.#loss ??= error;
    return error;
  }

  mayUse(shortcut: Shortcut): boolean {
    return !this.#givenUp.has(shortcut);
  }

  /** Disables an acceleration on this device for the rest of the process. */
  giveUp(shortcut: Shortcut, reason: string): void {
    if (this.#givenUp.has(shortcut)) return;
    const { code, what, instead } = SHORTCUTS[shortcut];
    const notice = `[${this.place}] ${what}: ${reason}; ${instead}`;
    this.#givenUp.set(shortcut, notice);
    process.emitWarning(notice, { type: "RocmForgeWarning", code });
  }

  /** Remembers something that was wrong on this device. */
  notice(text: string): void {
    this.#notices.push(text);
  }

  /** The disabled accelerations and replaced kernels with their reasons. */
  get notices(): readonly string[] {
    return [...this.#givenUp.values(), ...this.#notices];
  }

  /** Frees something; failures of a lost device are ignored. */
  release(free: () => void): void {
    if (!this.isUsable) return;
    try {
      free();
    } catch (error) {
      this.noticed(error);
      if (this.isUsable) throw error;
    }
  }

  /** Waits until copies have ended and nothing watches them; returns at once if the device cannot be used any more. */
  async copiesEnded(): Promise<void> {
    try {
      if (this.isUsable) await this.copies.ended();
    } catch (error) {
      this.noticed(error);
      if (this.isUsable) throw error;
    }
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.release(() => {
      for (const memory of this.#pinned.splice(0)) this.device.freeHost(memory);
      this.copies[Symbol.dispose]();
      if (this.#clearing !== undefined) this.device.destroyStream(this.#clearing);
      this.memory[Symbol.dispose]();
      this.kernels[Symbol.dispose]();
    });
    this.#disposed = true;
    this.device[Symbol.dispose]();
  }

  /** The driver's out-of-memory error, extended by the purpose and the sizes. */
  #noRoom(what: string, neededBytes: number, cause: unknown): unknown {
    if (!(cause instanceof GpuError) || cause.code !== "GPU_OUT_OF_MEMORY") return this.noticed(cause);
    const { availableBytes } = this.memory;
    return gpuError({
      kind: "out of memory",
      place: this.place,
      what: `${what} takes ${neededBytes} bytes and ${availableBytes} are free`,
      details: { ...cause.details, neededBytes, availableBytes },
      cause,
    });
  }
}
