// Which weights of a program with recurrent states are the gates of heads: its small matrices. Backends keep them more
// exact than others, because a state keeps and compounds their errors, and they cost next to nothing.

import type { WeightSpec } from "./program.js";

/** Elements of a matrix that counts as small: 32 heads of a model 2,048 wide. */
const MAX_GATE_ELEMENTS = 65_536;

/** The weights of a program with recurrent states, its small matrices marked. */
export function markGates(weights: readonly WeightSpec[]): readonly WeightSpec[] {
  const isGate = ({ role, shape }: WeightSpec): boolean =>
    role === "matrix" && shape.reduce((elements, length) => elements * length, 1) <= MAX_GATE_ELEMENTS;
  return weights.map((weight) => (isGate(weight) ? { ...weight, isGate: true } : weight));
}
