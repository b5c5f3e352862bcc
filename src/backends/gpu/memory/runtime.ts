// What every part of the backend shares on one device: its memory, kernels and copies, and whether it still answers.
// Once the device is lost everything that comes later is refused with what happened, and freeing is no more tried.

import { GpuError } from "../../../errors.js";
import { CopyQueue } from "./copy-queue.js";
import { type DeviceBlock, DeviceMemory } from "./device-memory.js";
import type { GpuDevice, StreamHandle } from "../drivers/shared/driver.js";
import { gpuError } from "../drivers/shared/gpu-error.js";
import type { KernelStore } from "../kernels/kernel-store.js";
import { LoadMarks } from "../drivers/shared/load-timings.js";

/** Bytes that are repacked at a time, and bytes of them that pass through pinned memory at a time. */
const MAPPED_STAGING_BYTES = 32 << 20;
export const PINNED_CHUNK_BYTES = 8 << 20;

/** What steps are faster with and can do without: captured graphs, and the vendor's BLAS library. */
type Shortcut = "graphs" | "blas";

const SHORTCUTS: Readonly<
  Record<Shortcut, { readonly code: string; readonly what: string; readonly instead: string }>
> = {
  graphs: {
    code: "ROCMFORGE_GRAPHS",
    what: "captured graphs are given up",
    instead: "steps run launch by launch, which is slower",
  },
  blas: {
    code: "ROCMFORGE_LIBRARY",
    what: "the BLAS library is given up",
    instead: "large matmuls run on this package's own kernels",
  },
};

export class GpuRuntime implements Disposable {
  readonly device: GpuDevice;
  readonly memory: DeviceMemory;
  readonly kernels: KernelStore;
  readonly copies: CopyQueue;
  readonly marks = new LoadMarks();
  /** Tensors freed so far: code that keeps addresses of weights looks them up again when this changes. */
  departures = 0;
  #clearing: StreamHandle | undefined;
  #staging: DeviceBlock | undefined;
  #loss: GpuError | undefined;
  readonly #givenUp = new Map<Shortcut, string>();
  #disposed = false;

  /** The device may still be on its way up: nothing is asked of it. */
  constructor(device: GpuDevice, kernels: KernelStore, { slabs }: { readonly slabs: boolean }) {
    this.device = device;
    this.kernels = kernels;
    this.memory = new DeviceMemory(device, { slabs });
    this.copies = new CopyQueue(device);
  }

  /** For clearing memory that no upload should stand in the way of. */
  get clearing(): StreamHandle {
    this.#clearing ??= this.device.createStream();
    return this.#clearing;
  }

  get stagingBytes(): number {
    return this.device.registersReadOnly ? MAPPED_STAGING_BYTES : PINNED_CHUNK_BYTES;
  }

  /** Memory that uploads pass through, in the order of the copy stream. */
  staging(): DeviceBlock {
    this.#staging ??= this.allocate("staging memory for weights", this.stagingBytes);
    return this.#staging;
  }

  /** Memory that may still be taken for staging. */
  get unstagedBytes(): number {
    return this.#staging === undefined ? this.stagingBytes : 0;
  }

  /** Where there is no room the error says for what. */
  allocate(what: string, sizeBytes: number): DeviceBlock {
    try {
      return this.memory.allocate(sizeBytes);
    } catch (error) {
      throw this.#noRoom(what, sizeBytes, error);
    }
  }

  /** For messages. */
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

  /** Remembers a lost device; gives the error back for throwing. */
  noticed(error: unknown): unknown {
    if (error instanceof GpuError && error.code === "GPU_DEVICE_LOST") this.#loss ??= error;
    return error;
  }

  mayUse(shortcut: Shortcut): boolean {
    return !this.#givenUp.has(shortcut);
  }

  /** For good: what was wrong once is not used on this device again. */
  giveUp(shortcut: Shortcut, reason: string): void {
    if (this.#givenUp.has(shortcut)) return;
    const { code, what, instead } = SHORTCUTS[shortcut];
    const notice = `[${this.place}] ${what}: ${reason}; ${instead}`;
    this.#givenUp.set(shortcut, notice);
    process.emitWarning(notice, { type: "RocmForgeWarning", code });
  }

  /** What was given up, and why. */
  get notices(): readonly string[] {
    return [...this.#givenUp.values()];
  }

  /** Frees something. What cannot be freed because the device is gone goes with it. */
  release(free: () => void): void {
    if (!this.isUsable) return;
    try {
      free();
    } catch (error) {
      this.noticed(error);
      if (this.isUsable) throw error;
    }
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.release(() => {
      this.copies[Symbol.dispose]();
      if (this.#clearing !== undefined) this.device.destroyStream(this.#clearing);
      this.memory[Symbol.dispose]();
      this.kernels[Symbol.dispose]();
    });
    this.#disposed = true;
    this.device[Symbol.dispose]();
  }

  /** What the driver said of memory that is used up, with what it was for and the numbers. */
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
