// A ring of pinned host memory chunks that uploads share: files are read into one while the device copies from another.
// Pinning is slow (half a second per gigabyte), so chunks are allocated on demand and kept. A driver that pins fewer than
// wanted makes uploads slower, not impossible.

import { GpuError } from "../../../errors.js";
import type { CopyQueue } from "./copy-queue.js";
import type { EventHandle, GpuDevice, PinnedMemory } from "../drivers/shared/driver.js";
import { PINNED_CHUNK_BYTES } from "./runtime.js";

/** As many as Node's concurrent reads. */
const SLOTS = 4;

interface RingSlot {
  readonly memory: PinnedMemory;
  readonly event: EventHandle;
}

/** Chunks of pinned memory that uploads take and return. */
export class PinnedRing implements Disposable {
  readonly #device: GpuDevice;
  readonly #copies: CopyQueue;
  readonly #slots: RingSlot[] = [];
  #idle: RingSlot[] = [];
  #waiting: ((slot: RingSlot) => void)[] = [];
  #isRefused = false;

  constructor(device: GpuDevice, copies: CopyQueue) {
    this.#device = device;
    this.#copies = copies;
  }

  /** Waits for the device if every slot is in use. */
  async take(): Promise<RingSlot> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    const added = this.#add();
    if (added !== undefined) return added;
    return await new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** One slot more; undefined if there are enough, or the driver pins no more. Throws if it pins none at all. */
  #add(): RingSlot | undefined {
    if (this.#slots.length >= SLOTS || this.#isRefused) return undefined;
    try {
      const slot = { memory: this.#device.allocateHost(PINNED_CHUNK_BYTES), event: this.#device.createEvent() };
      this.#slots.push(slot);
      return slot;
    } catch (error) {
      if (!(error instanceof GpuError) || this.#slots.length === 0) throw error;
      this.#isRefused = true;
      process.emitWarning(
        `the driver pinned ${this.#slots.length} of ${SLOTS} chunks of host memory, so weights are loaded more slowly: ${error.message}`,
        { type: "RocmForgeWarning", code: "ROCMFORGE_PINNING" },
      );
      return undefined;
    }
  }

  /** Returns a slot that the last queued copy reads from; it is free again when that copy has finished. */
  returnAfterCopy(slot: RingSlot): void {
    this.#copies.mark(slot.event, () => this.returnUnused(slot));
  }

  returnUnused(slot: RingSlot): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(slot);
    else next(slot);
  }

  /** Call after the copy queue has drained. */
  [Symbol.dispose](): void {
    for (const { memory, event } of this.#slots.splice(0)) {
      this.#device.destroyEvent(event);
      this.#device.freeHost(memory);
    }
    this.#idle = [];
    this.#waiting = [];
  }
}
