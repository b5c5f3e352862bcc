// A weight on the device. Its address is known at once; its bytes may still be in transit, and a launch that uses it
// waits for its event on the device, not on the host.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { DeviceTensor } from "../../../tensor/device-tensor.js";
import type { DeviceBlock } from "./device-memory.js";
import type { DeviceAddress, EventHandle } from "../drivers/shared/driver.js";
import type { GpuRuntime } from "./runtime.js";

interface TensorEvents {
  arrived(): void;
  disposed(): void;
}

/** A weight in device memory. */
export class GpuTensor implements DeviceTensor {
  readonly descriptor: TensorDescriptor;
  readonly runtime: GpuRuntime;
  readonly #block: DeviceBlock;
  readonly #onDisposed: () => void;
  #arrival: EventHandle | undefined;
  #disposed = false;

  /** `arrived` is called when the last byte has arrived, `disposed` when the tensor is disposed. */
  constructor(
    runtime: GpuRuntime,
    descriptor: TensorDescriptor,
    block: DeviceBlock,
    { arrived, disposed }: TensorEvents,
  ) {
    this.runtime = runtime;
    this.descriptor = descriptor;
    this.#block = block;
    this.#onDisposed = disposed;
    const event = runtime.device.createEvent();
    this.#arrival = event;
    runtime.copies.mark(event, () => {
      this.#arrival = undefined;
      runtime.marks.weights.goOn();
      runtime.release(() => runtime.device.destroyEvent(event));
      arrived();
    });
  }

  get residentBytes(): number {
    return this.#block.sizeBytes;
  }

  get address(): DeviceAddress {
    return this.#block.address;
  }

  /** The event to wait for before the bytes are read; undefined once they have arrived. */
  get arrival(): EventHandle | undefined {
    return this.#arrival;
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.runtime.departures++;
    this.runtime.release(() => {
      // The file that it is copied from may be closed next.
      if (this.#arrival !== undefined) this.runtime.copies.drain();
      this.runtime.memory.free(this.#block);
    });
    this.#onDisposed();
  }
}
