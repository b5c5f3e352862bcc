// Which tensors of a plan are loaded: a list that never changes, and the state of each, read from its handle when it is
// asked for. Invariant: asking starts no load, and a plan that is never asked keeps nothing.

import type { BackendDescription } from "../backends/contract.js";
import type { Shape } from "../tensor/descriptor.js";
import type { LazyTensor, LazyTensorState } from "../tensor/lazy-tensor.js";
import type { LayerPlan } from "./layer-plan.js";

/** A tensor of a plan, as it is known before any of its bytes are read. */
export interface PlannedTensor {
  readonly name: string;
  /** The part of the model that reads it first: a layer, or the embedding or the output. */
  readonly segment: string;
  /** The layer's number; undefined for the parts before and after the layers. */
  readonly layer: number | undefined;
  /** The block type, such as Q4_K. */
  readonly type: string;
  readonly shape: Shape;
  /** Bytes in the file. */
  readonly sizeBytes: number;
  /** Whether it stays in host memory, because a device reads single rows of it. */
  readonly onHost: boolean;
}

/** The tensors of a plan and where each is between not loaded and resident. */
export class PlanResidency {
  /** What computes the plan, in one line. */
  readonly device: string;
  readonly tensors: readonly PlannedTensor[];
  readonly #handles: readonly LazyTensor[];

  constructor(layers: readonly LayerPlan[], { summary }: BackendDescription) {
    this.device = summary;
    // A tensor that several parts read, such as an embedding that is also the output matrix, belongs to the first.
    const handles = new Map<LazyTensor, PlannedTensor>();
    for (const { name: segment, layer, weights } of layers)
      for (const { tensor } of weights)
        if (tensor !== undefined && !handles.has(tensor)) handles.set(tensor, plannedTensor(tensor, segment, layer));
    this.#handles = [...handles.keys()];
    this.tensors = [...handles.values()];
  }

  state(index: number): LazyTensorState {
    return this.#handles[index].state;
  }

  /** Bytes on the device: 0 if the tensor is not loaded, or is read from the file's mapping. */
  residentBytes(index: number): number {
    return this.#handles[index].resident?.residentBytes ?? 0;
  }
}

function plannedTensor({ descriptor }: LazyTensor, segment: string, layer: number | undefined): PlannedTensor {
  const { name, layout, shape, sizeBytes, onHost = false } = descriptor;
  return { name, segment, layer, type: layout.name, shape, sizeBytes, onHost };
}
