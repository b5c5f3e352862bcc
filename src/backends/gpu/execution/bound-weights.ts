// Addresses of a program's weights, as its launches use them: each weight is requested once, and a stream that uses it
// waits for its arrival. Invariant: a weight that was evicted and loaded again has a new address, which is noticed
// before the next step.

import { BackendError } from "../../../errors.js";
import type { WeightId } from "../../../graph/operation.js";
import type { DeviceTensor } from "../../../tensor/device-tensor.js";
import type { LazyTensor } from "../../../tensor/lazy-tensor.js";
import type { StreamHandle } from "../drivers/shared/driver.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { GpuTensor } from "../memory/tensor.js";

/** The weights of one program with their device addresses. */
export class BoundWeights {
  readonly #runtime: GpuRuntime;
  readonly #weights: readonly LazyTensor[];
  readonly #bound = new Map<WeightId, GpuTensor>();
  #departures = 0;

  constructor(runtime: GpuRuntime, weights: readonly LazyTensor[]) {
    this.#runtime = runtime;
    this.#weights = weights;
  }

  /** Whether all of these are bound, so that `bring` would return undefined. */
  knows(weights: readonly WeightId[]): boolean {
    return weights.every((id) => this.#bound.has(id));
  }

  /**
   * Requests these weights, binds their addresses and makes the stream wait for them; undefined if that is already
   * done.
   */
  bring(weights: readonly WeightId[], stream: StreamHandle): Promise<void> | undefined {
    const missing = weights.filter((id) => !this.#bound.has(id));
    return missing.length === 0 ? undefined : this.#bind(missing, stream);
  }

  tensor(id: WeightId): GpuTensor {
    const tensor = this.#bound.get(id);
    if (tensor === undefined) throw new TypeError(`${this.#weights[id].descriptor.name} is not bound`);
    return tensor;
  }

  /** Whether one of the weights has a new address, until `clear` is called. */
  hasMoved(): boolean {
    const { departures } = this.#runtime;
    if (this.#departures === departures) return false;
    for (const [id, tensor] of this.#bound) if (this.#weights[id].resident !== tensor) return true;
    this.#departures = departures;
    return false;
  }

  clear(): void {
    this.#bound.clear();
  }

  async #bind(weights: readonly WeightId[], stream: StreamHandle): Promise<void> {
    const tensors = await Promise.all(
      weights.map(async (id) => ownTensor(await this.#weights[id].load(), this.#runtime)),
    );
    for (const [index, tensor] of tensors.entries()) {
      if (tensor.arrival !== undefined) this.#runtime.device.streamWait(stream, tensor.arrival);
      this.#bound.set(weights[index], tensor);
    }
  }
}

function ownTensor(tensor: DeviceTensor, runtime: GpuRuntime): GpuTensor {
  if (tensor instanceof GpuTensor && tensor.runtime === runtime) return tensor;
  throw new BackendError("BACKEND_STEP", `[gpu] ${tensor.descriptor.name} belongs to another backend`);
}
