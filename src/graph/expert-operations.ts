// The operations of mixtures of experts: a router, matmuls with the experts that it chose, and their sum. The matmuls also
// serve latent attention, where each head has a matrix of its own.

import type { ValueId, WeightId } from "./operation.js";

/**
 * How the router turns logits into probabilities. `softmax-selected` chooses by the logits themselves and takes the softmax
 * over the chosen experts alone; `sigmoid-selected` does so with the sigmoid, which matters to the choice of groups.
 */
export type ExpertGating = "softmax" | "sigmoid" | "softmax-selected" | "sqrt-softplus" | "sigmoid-selected";

/**
 * The router of a mixture of experts: chooses the `used` most probable experts of each row. A row of the result holds the
 * chosen experts' numbers, the most probable first, and then their weights.
 */
export interface RouteExpertsOperation {
  readonly kind: "route-experts";
  /** One logit per expert. */
  readonly input: ValueId;
  /** Selection bias: added to the probabilities to choose experts, not to weigh them. */
  readonly bias?: WeightId;
  readonly used: number;
  readonly gating: ExpertGating;
  /** The experts form this many groups of neighbours; absent: 1. A group's score is the sum of its two best experts. */
  readonly groups?: number;
  /** Experts are chosen from the best `groupsUsed` groups only. */
  readonly groupsUsed?: number;
  /** Whether the weights are divided by their sum. */
  readonly renormalize: boolean;
  /** Multiplies the weights; absent: 1. */
  readonly scale?: number;
  readonly out: ValueId;
}

/**
 * A matmul of each row with `slots` matrices of a stack: the experts that `routing` names, or without it the matrices 0 to
 * `slots` − 1, one per head. Slot s reads the columns of `input` from s × `inputStride` on; its results, `outputs` columns,
 * follow those of the slot before.
 */
export interface GroupedMatmulOperation {
  readonly kind: "grouped-matmul";
  readonly input: ValueId;
  /** The result of `route-experts`. */
  readonly routing?: ValueId;
  /** [inputs, rows, matrices], or the matrices' rows one after the other. */
  readonly weight: WeightId;
  /** One factor per matrix. */
  readonly scale?: WeightId;
  /** [rows, matrices]. */
  readonly bias?: WeightId;
  readonly slots: number;
  /** Rows of each matrix. */
  readonly matrixRows: number;
  /** 0: all slots read the same columns. */
  readonly inputStride: number;
  /** The first row of each matrix that is used: a stack of gates and ups is two operations. */
  readonly firstOutput: number;
  readonly outputs: number;
  /** Whether a slot's results are multiplied by its weight in `routing`. */
  readonly weighted: boolean;
  readonly out: ValueId;
}

/** Adds up the columns of the slots of a `grouped-matmul`. */
export interface SumSlotsOperation {
  readonly kind: "sum-slots";
  readonly input: ValueId;
  readonly slots: number;
  readonly out: ValueId;
}
