// A model's step as frozen data: values, weights, operations in order, and where each value lives in scratch memory.
// It is printable, the same for every backend, and holds no device object; a backend compiles it once.

import type { Shape } from "../tensor/descriptor.js";
import type { MemoryPlan } from "./memory-plan.js";
import type { Operation, ValueId, ValueShape } from "./operation.js";

/**
 * How many rows a value has in a given step: one per token, one per requested output, or one per output that wants
 * more than the hidden state.
 */
export type RowSymbol = "tokens" | "outputs" | "scored";

export interface Value extends ValueShape {
  readonly id: ValueId;
  readonly name: string;
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
  /** Whether it is a table that only `embed` operations with `onHost` read. */
  readonly onHost?: boolean;
  /** Whether it is a small matrix of a program with recurrent states: the gates of heads, whose errors states keep. */
  readonly isGate?: boolean;
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
  /** The layer's number, or undefined for the segments before and after the layers. */
  readonly layer?: number;
  readonly firstOperation: number;
  readonly operationCount: number;
}

/** What one layer stores of a token: keys and values of `kvHeads` heads. */
export interface KvLayerShape {
  readonly kvHeads: number;
  readonly keyWidth: number;
  /** 0 if the values are columns of the keys. */
  readonly valueWidth: number;
}

/** How far back a query sees; without a limit it sees every position of its sequence. */
export interface KvReach {
  /** A query sees the last `window` positions, its own included. */
  readonly window?: number;
  /** A query sees the positions from the last multiple of `chunk` on. */
  readonly chunk?: number;
}

/** Layers of a KV cache that share blocks and a block table, because queries see them equally far back. */
export interface KvGroup extends KvReach {
  /** In ascending order. */
  readonly layers: readonly number[];
}

/** What a KV cache stores: `layers` layers of one shape, unless `byLayer` says that they differ. */
export interface KvShape extends KvLayerShape {
  readonly layers: number;
  /** The shape of each layer if they differ; the numbers above are then the largest of each. Absent: all are alike. */
  readonly byLayer?: readonly KvLayerShape[];
  /** The cache groups (`kvGroups`). Absent: all layers are one group, and queries see all positions. */
  readonly groups?: readonly KvGroup[];
  /**
   * The recurrent states of a sequence, by `StateId`: how many f32 elements a state slot has for each. Absent: the
   * program has no recurrent layers.
   */
  readonly states?: readonly number[];
}

/** The shape of these layers and recurrent states; empty lists are those of a program without a cache. */
export function kvShapeOf(layers: readonly KvLayerShape[], states: readonly number[] = []): KvShape {
  const largest = (field: keyof KvLayerShape): number => Math.max(0, ...layers.map((layer) => layer[field]));
  const [kvHeads, keyWidth, valueWidth] = [largest("kvHeads"), largest("keyWidth"), largest("valueWidth")];
  const alike = layers.every(
    (layer) => layer.kvHeads === kvHeads && layer.keyWidth === keyWidth && layer.valueWidth === valueWidth,
  );
  return {
    layers: layers.length,
    kvHeads,
    keyWidth,
    valueWidth,
    ...(alike ? {} : { byLayer: layers }),
    ...(states.length === 0 ? {} : { states }),
  };
}

/** The shape of each layer, in order. */
export function kvLayers(shape: KvShape): readonly KvLayerShape[] {
  return shape.byLayer ?? Array.from({ length: shape.layers }, () => shape);
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
  /** The logits of each scored row, if the program computes them. */
  readonly logits: ValueId | undefined;
}
