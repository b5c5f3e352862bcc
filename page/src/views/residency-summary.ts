// A model's tensors by layer, and sums over them.

import type { ModelResidency, ResidencyTensor, TensorState } from "../api/residency";

/** A layer, or the part before or after all layers. */
export interface ResidencyLayer {
  readonly name: string;
  /** False for the parts before and after the layers. */
  readonly isLayer: boolean;
  readonly tensors: readonly ResidencyTensor[];
  readonly bytes: number;
  readonly residentTensors: number;
}

/** Sums over tensors. */
export interface ResidencyTotals {
  readonly bytes: number;
  readonly residentBytes: number;
  /** Bytes that the backend allocated; 0 if all tensors are read from the file's mapping. */
  readonly deviceBytes: number;
  readonly tensors: number;
  readonly count: Readonly<Record<TensorState, number>>;
  /** Bytes by block type, the largest first. */
  readonly types: readonly (readonly [string, number])[];
}

/** In the order of the model. */
export function layersOf({ tensors }: ModelResidency): readonly ResidencyLayer[] {
  const layers = new Map<string, ResidencyTensor[]>();
  for (const tensor of tensors) {
    const name = tensor.layer === null ? tensor.segment : `Layer ${tensor.layer}`;
    const layer = layers.get(name);
    if (layer === undefined) layers.set(name, [tensor]);
    else layer.push(tensor);
  }
  return Array.from(layers, ([name, own]) => ({
    name,
    isLayer: own[0]?.layer !== null,
    tensors: own,
    bytes: own.reduce((sum, { bytes }) => sum + bytes, 0),
    residentTensors: own.filter(({ state }) => state === "resident").length,
  }));
}

export function totalsOf({ tensors }: ModelResidency): ResidencyTotals {
  const count = { unloaded: 0, arriving: 0, resident: 0, failed: 0 };
  const types = new Map<string, number>();
  let [bytes, residentBytes, deviceBytes] = [0, 0, 0];
  for (const tensor of tensors) {
    count[tensor.state]++;
    bytes += tensor.bytes;
    deviceBytes += tensor.resident_bytes;
    if (tensor.state === "resident") residentBytes += tensor.bytes;
    types.set(tensor.type, (types.get(tensor.type) ?? 0) + tensor.bytes);
  }
  const sorted = [...types].sort(([, one], [, other]) => other - one);
  return { bytes, residentBytes, deviceBytes, tensors: tensors.length, count, types: sorted };
}
