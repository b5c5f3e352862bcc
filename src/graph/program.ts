// A model's step as frozen data: values, weights, operations in order, and where each value lives in scratch memory.
// It is printable, the same for every backend, and holds no device object; a backend compiles it once.

import type { Shape } from "../tensor/descriptor.js";
import type { MemoryPlan } from "./memory-plan.js";
import type { Operation, ValueId } from "./operation.js";

/**
 * How many rows a value has in a given step: one per token, one per requested output, or one per output that wants
 * more than the hidden state.
 */
export type RowSymbol = "tokens" | "outputs" | "scored";

export interface Value {
  readonly id: ValueId;
  readonly name: string;
  readonly rows: RowSymbol;
  readonly width: number;
  /** A view shares the storage of `base`, starting at column `columnOffset` of its rows. */
  readonly base?: ValueId;
  readonly columnOffset: number;
}

export interface WeightSpec {
  /** The tensor's name in the file. */
  readonly name: string;
  readonly shape: Shape;
  /** A vector (norm, bias, factors) is read element by element, so its type must be a plain float. */
  readonly role: "matrix" | "vector";
}

/** Angle of pair i at a position = position × ratioⁱ (÷ the file's factor i) × stretches[i]: see `rope-angles.ts`. */
export interface RopeTable {
  /** An f32. */
  readonly ratio: number;
  readonly stretches: readonly number[];
  readonly magnitude: number;
}

export interface Segment {
  readonly name: string;
  /** The layer it is, or undefined for what stands before and after the layers. */
  readonly layer?: number;
  readonly firstOperation: number;
  readonly operationCount: number;
}

export interface KvShape {
  readonly layers: number;
  readonly kvHeads: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
}

export interface Program {
  readonly values: readonly Value[];
  readonly weights: readonly WeightSpec[];
  readonly ropes: readonly RopeTable[];
  readonly operations: readonly Operation[];
  readonly segments: readonly Segment[];
  readonly memory: MemoryPlan;
  readonly kv: KvShape;
  /** Rows of the embedding table and of the logits. */
  readonly vocabularySize: number;
  /** The last hidden state of each output row. */
  readonly hidden: ValueId;
  /** The logits of each scored row, where the program computes them. */
  readonly logits: ValueId | undefined;
}
