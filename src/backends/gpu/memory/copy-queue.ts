// The stream that uploads travel on, and what happens when each has arrived. It is watched by one waiting thread
// however many copies are under way: threads that wait for a device are threads that read no file.

import type { EventHandle, GpuDevice, StreamHandle } from "../drivers/shared/driver.js";

interface Arrival {
  readonly event: EventHandle;
  readonly done: () => void;
}

export class CopyQueue implements Disposable {
  readonly #device: GpuDevice;
  #stream: StreamHandle | undefined;
  /** In the order of the stream, which is the order in which they end. */
  #pending: Arrival[] = [];
  #isWatched = false;
  #disposed = false;

  constructor(device: GpuDevice) {
    this.#device = device;
  }

  /** Made when first wanted: the device may still be on its way up. */
  get stream(): StreamHandle {
    this.#stream ??= this.#device.createStream();
    return this.#stream;
  }

  /**
   * Marks this point of the stream with the event and calls back once the device is past it, or can no more get there.
   */
  mark(event: EventHandle, done: () => void): void {
    this.#device.record(event, this.stream);
    this.#pending.push({ event, done });
    if (!this.#isWatched) void this.#watch();
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

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.drain();
    if (this.#stream !== undefined) this.#device.destroyStream(this.#stream);
  }

  /** Never rejects: a device that fails here fails the step that waits for the same copies. */
  async #watch(): Promise<void> {
    this.#isWatched = true;
    while (this.#pending.length > 0) {
      const [first] = this.#pending;
      try {
        await this.#device.whenDone(first.event);
      } catch {
        this.#finish(this.#pending.length);
        break;
      }
      if (this.#disposed) break;
      let arrived = this.#pending[0] === first ? 1 : 0;
      while (arrived < this.#pending.length && this.#hasArrived(this.#pending[arrived].event)) arrived++;
      this.#finish(arrived);
    }
    this.#isWatched = false;
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
