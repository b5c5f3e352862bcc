// The stream of uploads, and the callbacks for their arrival. One thread waits for all copies in flight: a thread that
// waits for a device cannot read files.

import { tracedAsync } from "../drivers/shared/start-trace.js";
import type { EventHandle, GpuDevice, StreamHandle } from "../drivers/shared/driver.js";

interface Arrival {
  readonly event: EventHandle;
  readonly done: () => void;
}

/** Queues uploads on one stream and reports their arrival. */
export class CopyQueue implements Disposable {
  readonly #device: GpuDevice;
  #stream: StreamHandle | undefined;
  /** In the order of the stream, in which they complete. */
  #pending: Arrival[] = [];
  #watch: Promise<void> | undefined;
  #disposed = false;

  constructor(device: GpuDevice) {
    this.#device = device;
  }

  /** Created on first use: the device may still be opening. */
  get stream(): StreamHandle {
    this.#stream ??= this.#device.createStream();
    return this.#stream;
  }

  /** Records the event at this point of the stream and calls `done` once the device has passed it, or never can. */
  mark(event: EventHandle, done: () => void): void {
    this.#device.record(event, this.stream);
    this.#pending.push({ event, done });
    this.#watch ??= this.#watchArrivals();
  }

  /** Blocks this thread until everything queued so far has arrived: for cleaning up. */
  drain(): void {
    if (this.#pending.length === 0) return;
    try {
      this.#device.synchronize();
    } finally {
      this.#finish(this.#pending.length);
    }
  }

  /** Drains the queue and waits until no thread watches a copy any more: an event with such a thread cannot be destroyed. */
  async ended(): Promise<void> {
    this.drain();
    await this.#watch;
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.drain();
    if (this.#stream !== undefined) this.#device.destroyStream(this.#stream);
  }

  /** Never rejects: a device that fails here also fails the step that waits for the same copies. */
  async #watchArrivals(): Promise<void> {
    while (this.#pending.length > 0) {
      const [first] = this.#pending;
      try {
        await tracedAsync("copies arrive", () => this.#device.whenDone(first.event));
      } catch {
        this.#finish(this.#pending.length);
        break;
      }
      if (this.#disposed) break;
      let arrived = this.#pending[0] === first ? 1 : 0;
      while (arrived < this.#pending.length && this.#hasArrived(this.#pending[arrived].event)) arrived++;
      this.#finish(arrived);
    }
    this.#watch = undefined;
  }

  #hasArrived(event: EventHandle): boolean {
    try {
      return this.#device.isDone(event);
    } catch {
      return true;
    }
  }

  #finish(count: number): void {
    const arrived = this.#pending.slice(0, count);
    this.#pending = this.#pending.slice(count);
    for (const { done } of arrived) done();
  }
}
