// How many parameters a program has, and how many of them a token uses: of a mixture of experts only the chosen ones.

import { weightsOf } from "./operation.js";
import type { Program } from "./program.js";

export interface ParameterCount {
  readonly total: number;
  /** Parameters that the forward pass of one token uses. */
  readonly active: number;
}

/** Counts the elements of a program's weights. */
export function countParameters({ weights, operations }: Program): ParameterCount {
  const used = new Map<number, number>();
  for (const operation of operations) {
    for (const id of weightsOf(operation)) {
      const { shape } = weights[id];
      const isChosen = operation.kind === "grouped-matmul" && operation.routing !== undefined;
      // Tensors of experts have one matrix, row or number per expert, in the last dimension.
      const share = isChosen ? operation.slots / shape[shape.length - 1] : 1;
      used.set(id, Math.max(used.get(id) ?? 0, share));
    }
  }
  let [total, active] = [0, 0];
  for (const [id, share] of used) {
    const elements = weights[id].shape.reduce((count, length) => count * length, 1);
    total += elements;
    active += elements * share;
  }
  return { total, active: Math.round(active) };
}
