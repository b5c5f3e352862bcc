// A ring of pinned host memory chunks that uploads share: files are read into one while the device copies from another.
// Pinning is slow (half a second per gigabyte), so chunks are allocated on demand and kept.

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

  constructor(device: GpuDevice, copies: CopyQueue) {
    this.#device = device;
    this.#copies = copies;
  }

  /** Waits for the device if every slot is in use. */
  async take(): Promise<RingSlot> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#slots.length < SLOTS) {
      const slot = { memory: this.#device.allocateHost(PINNED_CHUNK_BYTES), event: this.#device.createEvent() };
      this.#slots.push(slot);
      return slot;
    }
    return await new Promise((resolve) => this.#waiting.push(resolve));
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
