// The closed union of operations a model is made of. Values are matrices of f32 with a symbolic row count
// (all tokens of the step, or only its output rows); weights are tensors of the file, known by their index.
// Adding an operation here makes operation-table.ts and the tables of `reference` and the GPU backend fail to compile until
// they have it; a test asks the CPU addon for every kind. CONTRIBUTING.md lists the files of a new one.

import type { Shape } from "../tensor/descriptor.js";
import type { GroupedMatmulOperation, RouteExpertsOperation, SumSlotsOperation } from "./expert-operations.js";
import { OPERATIONS, type OperationEntry } from "./operation-table.js";
import type {
  CausalConvOperation,
  DeltaNetOperation,
  PreviousRowOperation,
  SsmScanOperation,
  StateWriteOperation,
} from "./recurrent-operations.js";
import type { RowSymbol } from "./program.js";

export type {
  ExpertGating,
  GroupedMatmulOperation,
  RouteExpertsOperation,
  SumSlotsOperation,
} from "./expert-operations.js";
export type {
  CausalConvOperation,
  DeltaNetOperation,
  PreviousRowOperation,
  SsmScanOperation,
  StateWriteOperation,
} from "./recurrent-operations.js";

export type ValueId = number;
export type WeightId = number;
export type RopeId = number;
/** Index of a recurrent state in a state slot. */
export type StateId = number;

/** Looks up one row of `table` for each token of the step and multiplies it by `scale`. */
export interface EmbedOperation {
  readonly kind: "embed";
  readonly table: WeightId;
  /** Absent: 1. */
  readonly scale?: number;
  /** Whether the table stays in host memory, because it is large and only single rows of it are read. */
  readonly onHost?: boolean;
  readonly out: ValueId;
}

/** Divides each group of `groupWidth` columns by its root mean square, then multiplies by `weight` if there is one. */
export interface RmsNormOperation {
  readonly kind: "rms-norm";
  readonly input: ValueId;
  readonly weight?: WeightId;
  /** The whole row for a layer norm, one head for a query or key norm. */
  readonly groupWidth: number;
  /** Whether `weight` has an element for each column of a row; absent: for each column of a group, the same for all. */
  readonly rowWeights?: boolean;
  readonly epsilon: number;
  readonly out: ValueId;
}

/** Subtracts a row's mean, divides by its standard deviation, multiplies by `weight` and adds `bias` if there is one. */
export interface LayerNormOperation {
  readonly kind: "layer-norm";
  readonly input: ValueId;
  readonly weight: WeightId;
  readonly bias?: WeightId;
  readonly epsilon: number;
  readonly out: ValueId;
}

/** out = input × factor × weight, where `weight` is a one-element tensor. */
export interface ScaleOperation {
  readonly kind: "scale";
  readonly input: ValueId;
  /** Absent: 1. */
  readonly factor?: number;
  readonly weight?: WeightId;
  readonly out: ValueId;
}

/** Quantizes a row to 8 bits in blocks of 32 with one f32 scale each, and dequantizes it: the loss of a q8 matmul. */
export interface QuantizeActivationsOperation {
  readonly kind: "quantize-activations";
  readonly input: ValueId;
  readonly out: ValueId;
}

/**
 * out = input · weightᵀ (× scale) (+ bias), then soft-capped. `scale` is a one-element tensor that some files with 4-bit
 * floats have.
 */
export interface MatmulOperation {
  readonly kind: "matmul";
  readonly input: ValueId;
  readonly weight: WeightId;
  readonly scale?: WeightId;
  readonly bias?: WeightId;
  /** Logit soft-cap: every result x becomes softCap × tanh(x / softCap). */
  readonly softCap?: number;
  readonly out: ValueId;
}

/** `adjacent` rotates the pairs (2i, 2i+1), `halves` the pairs (i, i + rotaryWidth/2). */
export type RopeStyle = "adjacent" | "halves";

/** Rotates `rotaryWidth` columns of each head, from `firstColumn` on, by the token's position. */
export interface RopeOperation {
  readonly kind: "rope";
  readonly input: ValueId;
  readonly heads: number;
  readonly headWidth: number;
  readonly rotaryWidth: number;
  /** Absent: 0. */
  readonly firstColumn?: number;
  readonly style: RopeStyle;
  readonly rope: RopeId;
  /** Per-pair divisors of the frequencies, if the file has them (Llama 3). */
  readonly factors?: WeightId;
  readonly out: ValueId;
}

/** Stores each token's key and value rows in the cache, at its position in its sequence's blocks. */
export interface KvWriteOperation {
  readonly kind: "kv-write";
  readonly layer: number;
  readonly key: ValueId;
  /** Absent if the values are columns of the keys. */
  readonly value?: ValueId;
}

/** For each head, columns of `left` followed by columns of `right`. */
export interface ConcatHeadsOperation {
  readonly kind: "concat-heads";
  readonly left: ValueId;
  readonly right: ValueId;
  readonly heads: number;
  readonly leftWidth: number;
  readonly rightWidth: number;
  /** Columns from one head of `right` to the next; 0: all heads get the same columns. */
  readonly rightStride: number;
  /** The first column of each head of `right`. */
  readonly rightOffset: number;
  readonly out: ValueId;
}

/** Columns of each head: `width` of them, from column `offset` of the head on. */
export interface HeadColumnsOperation {
  readonly kind: "head-columns";
  readonly input: ValueId;
  readonly heads: number;
  readonly offset: number;
  readonly width: number;
  readonly out: ValueId;
}

/** Causal attention of each token over the cached positions of its own sequence, its own position included. */
export interface AttentionOperation {
  readonly kind: "attention";
  readonly layer: number;
  readonly query: ValueId;
  readonly heads: number;
  readonly kvHeads: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
  readonly scale: number;
  /** Sliding window: a token sees the last `window` positions, its own included. Absent: all positions. */
  readonly window?: number;
  /** Chunked attention: a token sees the positions from the last multiple of `chunk` on. Absent: all positions. */
  readonly chunk?: number;
  /** Positions before this one are seen by themselves alone. Absent: 0. */
  readonly first?: number;
  /** Attention temperature: scores × (1 + temperature × ln(1 + ⌊(position + offset) ÷ length⌋)). Absent: none. */
  readonly temperature?: number;
  readonly temperatureLength?: number;
  readonly temperatureOffset?: number;
  /** Latent attention: the values are the first `valueWidth` columns of the keys. */
  readonly valuesInKeys?: boolean;
  /** Every scaled score x becomes softCap × tanh(x / softCap) before the softmax. */
  readonly softCap?: number;
  /** Attention sinks: one f32 logit per head that joins the softmax without a value. */
  readonly sinks?: WeightId;
  readonly out: ValueId;
}

/**
 * `gelu` is the tanh approximation: ½x(1 + tanh(√(2/π)(x + 0.044715x³))). `swiglu-oai` is that of gpt-oss, which clamps gate
 * and up: g·σ(1.702g)·(u + 1) with g = min(gate, 7) and u = clamp(up, −7, 7). `identity` is the product of both, and
 * `relu` with gate and up the same is relu².
 */
export type Activation = "silu" | "gelu" | "sigmoid" | "swiglu-oai" | "relu" | "identity";

/** Gated linear unit: out = activation(gate) × up. A gate of one column applies to the whole row. */
export interface GluOperation {
  readonly kind: "glu";
  readonly activation: Activation;
  readonly gate: ValueId;
  readonly up: ValueId;
  readonly out: ValueId;
}

export interface AddOperation {
  readonly kind: "add";
  readonly left: ValueId;
  readonly right: ValueId;
  readonly out: ValueId;
}

/** Keeps only the rows that later operations need: from all tokens to `outputs`, or from those to `scored`. */
export interface SelectRowsOperation {
  readonly kind: "select-rows";
  /** The rows that are kept. */
  readonly rows: Exclude<RowSymbol, "tokens">;
  readonly input: ValueId;
  readonly out: ValueId;
}

export type Operation =
  | EmbedOperation
  | RmsNormOperation
  | LayerNormOperation
  | ScaleOperation
  | QuantizeActivationsOperation
  | MatmulOperation
  | RouteExpertsOperation
  | GroupedMatmulOperation
  | SumSlotsOperation
  | RopeOperation
  | ConcatHeadsOperation
  | HeadColumnsOperation
  | CausalConvOperation
  | DeltaNetOperation
  | SsmScanOperation
  | PreviousRowOperation
  | StateWriteOperation
  | KvWriteOperation
  | AttentionOperation
  | GluOperation
  | AddOperation
  | SelectRowsOperation;

export type OperationKind = Operation["kind"];
export type OperationOf<Kind extends OperationKind> = Extract<Operation, { readonly kind: Kind }>;

/** The kinds of operations that write a value. */
export type KindWithResult = Extract<Operation, { readonly out: ValueId }>["kind"];

/** How many rows a value has, and how many columns. */
export interface ValueShape {
  readonly rows: RowSymbol;
  readonly width: number;
}

/** Shapes of the values and weights of a program that is being written. */
export interface OperandShapes {
  value(id: ValueId): ValueShape;
  weight(id: WeightId): Shape;
}

/**
 * What a field of an operation holds: a value, a weight, a table of rope angles, a layer of the KV cache, a recurrent
 * state, or a setting.
 */
export type FieldRole = "input" | "output" | "weight" | "rope" | "kv-layer" | "state" | "attribute";

/** An operation before its result has an id. */
export type UnplacedOperation<Kind extends OperationKind = OperationKind> = Kind extends OperationKind
  ? Omit<OperationOf<Kind>, "out">
  : never;

/** The shape of an operation's result, undefined if it has none; throws if the operands do not fit. */
export function resultShape(operation: UnplacedOperation, shapes: OperandShapes): ValueShape | undefined {
  const entry = OPERATIONS[operation.kind] as OperationEntry<OperationKind>;
  return entry.result(operation, shapes);
}

export interface OperationField {
  readonly name: string;
  readonly role: FieldRole;
  readonly value: string | number | boolean;
}

/** The fields that an operation has, in the order of the table; optional ones that are absent are left out. */
export function fieldsOf(operation: Operation): readonly OperationField[] {
  const held: Readonly<Record<string, unknown>> = { ...operation };
  return Object.entries(OPERATIONS[operation.kind].fields).flatMap(([name, role]: [string, FieldRole]) => {
    const value = held[name];
    return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
      ? [{ name, role, value }]
      : [];
  });
}

/** The names of the fields with a role, by kind and role: plans of large models ask for them thousands of times. */
const namesByRole = new Map<string, readonly string[]>();

function namesOf(kind: OperationKind, role: FieldRole): readonly string[] {
  const key = `${kind} ${role}`;
  let names = namesByRole.get(key);
  if (names === undefined) {
    const fields: Readonly<Record<string, FieldRole>> = OPERATIONS[kind].fields;
    names = Object.keys(fields).filter((name) => fields[name] === role);
    namesByRole.set(key, names);
  }
  return names;
}

function idsOf(operation: Operation, role: FieldRole): readonly number[] {
  const ids: number[] = [];
  for (const name of namesOf(operation.kind, role)) {
    const id = (operation as unknown as Readonly<Record<string, unknown>>)[name];
    if (typeof id === "number") ids.push(id);
  }
  return ids;
}

/** The values an operation reads, in order. */
export function inputsOf(operation: Operation): readonly ValueId[] {
  return idsOf(operation, "input");
}

/** The value an operation writes, if it writes one. */
export function outputOf(operation: Operation): ValueId | undefined {
  return idsOf(operation, "output")[0];
}

/** The weights an operation reads, in order. */
export function weightsOf(operation: Operation): readonly WeightId[] {
  return idsOf(operation, "weight");
}
