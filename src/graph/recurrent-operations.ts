// The operations of recurrent layers. Each has a state of its own in the state slot of a sequence, in f32, which the step
// reads once for each sequence and writes after the tokens that `StepInput.stateWrites` names. A new sequence begins with
// zeros.

import type { StateId, ValueId, WeightId } from "./operation.js";

/**
 * Depthwise causal convolution along each sequence: out[t] = activation(bias + Σⱼ weight[j] × input[t − taps + 1 + j]) in
 * each column. The state is the last taps − 1 inputs, the oldest first.
 */
export interface CausalConvOperation {
  readonly kind: "causal-conv";
  readonly state: StateId;
  readonly input: ValueId;
  /** [taps, columns]; the last tap is that of the token itself. */
  readonly weight: WeightId;
  readonly bias?: WeightId;
  /** Absent: none. */
  readonly activation?: "silu";
  readonly out: ValueId;
}

/**
 * Gated delta net. For each value head with its key head, S the state's matrix [key column × value column]: k and q are
 * divided by max(‖·‖, ε), g = decay × softplus(alpha + bias), S ← exp(g) × S, S ← S + k ⊗ σ(beta)(v − Sᵀk), and the
 * result is Sᵀq ÷ √headWidth. The state is S of all value heads.
 */
export interface DeltaNetOperation {
  readonly kind: "delta-net";
  readonly state: StateId;
  /** Queries of all key heads, keys of all key heads, values of all value heads. */
  readonly input: ValueId;
  /** A column for each value head. */
  readonly alpha: ValueId;
  /** A column for each value head. */
  readonly beta: ValueId;
  /** One element for each value head, −exp(A_log). */
  readonly decay: WeightId;
  readonly bias: WeightId;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly headWidth: number;
  /** The key head of value head h: h mod keyHeads (`cyclic`), or ⌊h ÷ (valueHeads ÷ keyHeads)⌋ (`grouped`). */
  readonly keyHeadOrder: "cyclic" | "grouped";
  /** Least norm of queries and keys. */
  readonly epsilon: number;
  readonly out: ValueId;
}

/**
 * The scan of Mamba-2. For each head with B and C of its group, S the state's matrix [state column × head column]:
 * Δ = softplus(step + bias), S ← exp(Δ × decay) × S + B ⊗ Δx, and the result is SᵀC + skip × x. The state is S of all
 * heads. Neighbouring heads share a group.
 */
export interface SsmScanOperation {
  readonly kind: "ssm-scan";
  readonly state: StateId;
  /** x of all heads, B of all groups, C of all groups. */
  readonly input: ValueId;
  /** A column for each head. */
  readonly step: ValueId;
  /** One element for each head, −exp(A_log). */
  readonly decay: WeightId;
  readonly bias: WeightId;
  readonly skip: WeightId;
  readonly heads: number;
  readonly headWidth: number;
  readonly groups: number;
  readonly stateWidth: number;
  readonly out: ValueId;
}

/**
 * The row of the token before each one in its sequence. The first token of a step gets the state, which is one row; so
 * do all tokens if there is no input. The state itself is written by `state-write`.
 */
export interface PreviousRowOperation {
  readonly kind: "previous-row";
  readonly state: StateId;
  readonly input?: ValueId;
  readonly width: number;
  readonly out: ValueId;
}

/** The state after a token is that token's row. */
export interface StateWriteOperation {
  readonly kind: "state-write";
  readonly state: StateId;
  readonly input: ValueId;
}
