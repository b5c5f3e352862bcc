// The closed union of operations a model is made of. Values are matrices of f32 with a symbolic row count
// (all tokens of the step, or only its output rows); weights are tensors of the file, known by their index.
// Adding an operation here makes every backend's table fail to compile until it answers for it.

export type ValueId = number;
export type WeightId = number;
export type RopeId = number;

/** Looks up one row of `table` for each token of the step and multiplies it by `scale`. */
export interface EmbedOperation {
  readonly kind: "embed";
  readonly table: WeightId;
  /** Absent: 1. */
  readonly scale?: number;
  readonly out: ValueId;
}

/** Divides each group of `groupWidth` columns by its root mean square, then multiplies by `weight`. */
export interface RmsNormOperation {
  readonly kind: "rms-norm";
  readonly input: ValueId;
  readonly weight: WeightId;
  /** The whole row for a layer norm, one head for a query or key norm. */
  readonly groupWidth: number;
  readonly epsilon: number;
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

/** Rotates the first `rotaryWidth` columns of each head by the token's position. */
export interface RopeOperation {
  readonly kind: "rope";
  readonly input: ValueId;
  readonly heads: number;
  readonly headWidth: number;
  readonly rotaryWidth: number;
  readonly style: RopeStyle;
  readonly rope: RopeId;
  /** Per-pair divisors of the frequencies, where the file has them (Llama 3). */
  readonly factors?: WeightId;
  readonly out: ValueId;
}

/** Stores each token's key and value rows in the cache, at its position in its sequence's blocks. */
export interface KvWriteOperation {
  readonly kind: "kv-write";
  readonly layer: number;
  readonly key: ValueId;
  readonly value: ValueId;
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
  /** Every scaled score x becomes softCap × tanh(x / softCap) before the softmax. */
  readonly softCap?: number;
  /** Attention sinks: one f32 logit per head that joins the softmax without a value. */
  readonly sinks?: WeightId;
  readonly out: ValueId;
}

/** `gelu` is the tanh approximation: ½x(1 + tanh(√(2/π)(x + 0.044715x³))). */
export type Activation = "silu" | "gelu";

/** Gated linear unit: out = activation(gate) × up. */
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

/** Keeps only the rows that are wanted further on: from all tokens to `outputs`, or from those to `scored`. */
export interface SelectRowsOperation {
  readonly kind: "select-rows";
  readonly input: ValueId;
  readonly out: ValueId;
}

export type Operation =
  | EmbedOperation
  | RmsNormOperation
  | QuantizeActivationsOperation
  | MatmulOperation
  | RopeOperation
  | KvWriteOperation
  | AttentionOperation
  | GluOperation
  | AddOperation
  | SelectRowsOperation;

export type OperationKind = Operation["kind"];
export type OperationOf<Kind extends OperationKind> = Extract<Operation, { readonly kind: Kind }>;

/** The values an operation reads, in order. */
export function inputsOf(operation: Operation): readonly ValueId[] {
  switch (operation.kind) {
    case "embed":
      return [];
    case "rms-norm":
    case "quantize-activations":
    case "matmul":
    case "rope":
    case "select-rows":
      return [operation.input];
    case "kv-write":
      return [operation.key, operation.value];
    case "attention":
      return [operation.query];
    case "glu":
      return [operation.gate, operation.up];
    case "add":
      return [operation.left, operation.right];
    default:
      return operation satisfies never;
  }
}

export function outputOf(operation: Operation): ValueId | undefined {
  return operation.kind === "kv-write" ? undefined : operation.out;
}

export function weightsOf(operation: Operation): readonly WeightId[] {
  const present = (...ids: (WeightId | undefined)[]): WeightId[] => ids.filter((id) => id !== undefined);
  switch (operation.kind) {
    case "embed":
      return [operation.table];
    case "rms-norm":
      return [operation.weight];
    case "matmul":
      return present(operation.weight, operation.scale, operation.bias);
    case "rope":
      return present(operation.factors);
    case "attention":
      return present(operation.sinks);
    case "quantize-activations":
    case "kv-write":
    case "glu":
    case "add":
    case "select-rows":
      return [];
    default:
      return operation satisfies never;
  }
}
