// How many parameters a program has, and how many of them a token uses: of a mixture of experts only the chosen ones.

import { type Operation, type WeightId, weightsOf } from "./operation.js";
import type { Program } from "./program.js";

export interface ParameterCount {
  readonly total: number;
  /** Parameters that the forward pass of one token uses. */
  readonly active: number;
}

/** Counts the elements of a program's weights. */
export function countParameters(program: Program): ParameterCount {
  const { weights } = program;
  let [total, active] = [0, 0];
  for (const [id, share] of shareById(program, () => 1)) {
    const elements = weights[id].shape.reduce((count, length) => count * length, 1);
    total += elements;
    active += elements * share;
  }
  return { total, active: Math.round(active) };
}

/** The share of each weight that decoding one token reads: the chosen experts, and one row of a table that is looked up. */
export function activeShares(program: Program): ReadonlyMap<WeightId, number> {
  return shareById(program, ({ kind }) => (kind === "embed" ? 1 / program.vocabularySize : 1));
}

/** The largest share of each weight that an operation uses; `plainShare` is that of weights that are no experts'. */
function shareById(
  { weights, operations }: Program,
  plainShare: (operation: Operation) => number,
): ReadonlyMap<WeightId, number> {
  const used = new Map<WeightId, number>();
  for (const operation of operations) {
    const isChosen = operation.kind === "grouped-matmul" && operation.routing !== undefined;
    for (const id of weightsOf(operation)) {
      const { shape } = weights[id];
      // Tensors of experts have one matrix, row or number per expert, in the last dimension.
      const share = isChosen ? operation.slots / shape[shape.length - 1] : plainShare(operation);
      used.set(id, Math.max(used.get(id) ?? 0, share));
    }
  }
  return used;
}
