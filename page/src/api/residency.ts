// The tensors of a model as GET /residency lists them, and how its events change them.

import type { ModelState } from "./models";

/** Whether a tensor is loaded. */
export type TensorState = "unloaded" | "arriving" | "resident" | "failed";

/** A tensor of a model. */
export interface ResidencyTensor {
  readonly name: string;
  readonly segment: string;
  readonly layer: number | null;
  readonly type: string;
  readonly shape: readonly number[];
  readonly bytes: number;
  readonly place: "device" | "host";
  readonly state: TensorState;
  readonly resident_bytes: number;
}

/** The tensors of a model; none if it is not loaded. */
export interface ModelResidency {
  readonly model: string;
  readonly state: ModelState;
  readonly device: string | null;
  readonly tensors: readonly ResidencyTensor[];
}

/** Tensors whose state has changed. */
export interface StateChanges {
  readonly state: ModelState;
  readonly changed: readonly { readonly index: number; readonly state: TensorState; readonly resident_bytes: number }[];
}

/** A copy in which only changed tensors are new objects, so that views redraw those alone. */
export function withChanges(residency: ModelResidency, { state, changed }: StateChanges): ModelResidency {
  const tensors = [...residency.tensors];
  for (const { index, ...change } of changed) {
    const tensor = tensors[index];
    if (tensor !== undefined) tensors[index] = { ...tensor, ...change };
  }
  return { ...residency, state, tensors };
}
