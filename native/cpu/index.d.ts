// The native bindings: everything that TypeScript and the C++ addon exchange. The addon checks every argument again and
// refuses it with an Error that has one of the codes below. Numbers are whole unless a comment says otherwise.

/** INVALID: an argument is out of bounds or contradicts another. TRUNCATED: the file shrank while it was mapped. */
export type NativeErrorCode = "INVALID" | "MEMORY" | "TRUNCATED" | "CANCELLED";

export interface NativeError extends Error {
  readonly code: NativeErrorCode;
  /** For MEMORY: what was asked for. */
  readonly neededBytes?: number;
}

/** Memory that weights are read from: a mapped file, or a buffer of the addon's own if files cannot be mapped. */
export interface NativeRegion {
  readonly sizeBytes: number;
  /** The addon's own buffer, to be filled; undefined for a mapping. */
  readonly buffer: ArrayBuffer | undefined;
  /** Steps in flight keep the addon's own buffer; the caller must keep a mapping until they have ended. */
  dispose(): void;
}

/** What one layer stores of a token. */
export interface NativeKvLayer {
  readonly kvHeads: number;
  readonly keyWidth: number;
  /** 0 if the values are columns of the keys. */
  readonly valueWidth: number;
}

/** Layers that share blocks and a block table; queries see the last `window` positions, or those of their `chunk`. */
export interface NativeKvGroup {
  readonly layers: readonly number[];
  readonly window?: number;
  readonly chunk?: number;
}

/** `layers` layers of one shape, unless `byLayer` has the shape of each. Without `groups` all are one group. */
export interface NativeKvShape extends NativeKvLayer {
  readonly layers: number;
  readonly byLayer?: readonly NativeKvLayer[];
  readonly groups?: readonly NativeKvGroup[];
  /** Elements of each recurrent state of a sequence; absent: none. A cache with states may have no layers. */
  readonly states?: readonly number[];
}

export interface NativeKvOptions extends NativeKvShape {
  /** Of every group, unless `blocksByGroup` has the number of each; then the largest. */
  readonly blocks: number;
  readonly blocksByGroup?: readonly number[];
  readonly blockTokens: number;
  readonly type: "f32" | "f16" | "q8_0";
  /** Slots for recurrent states, each with all states of one sequence; absent: 0. */
  readonly stateSlots?: number;
}

export interface NativeKvCache {
  readonly sizeBytes: number;
  /** Copies whole blocks of a group (from, to, from, to …) in the queue of the steps. `pairs` is copied at once. */
  copyBlocks(pairs: Int32Array, group: number): void;
  /** Copies the first blocks of each group and all state slots of a cache of the same shape, in the queue of the steps. */
  copyFrom(source: NativeKvCache, blocks: Int32Array): void;
  /** Steps and copies in flight keep the memory. */
  dispose(): void;
}

export type NativeRows = "tokens" | "outputs" | "scored";

export interface NativeSlot {
  readonly rows: NativeRows;
  /** Floats in one row. */
  readonly width: number;
}

export interface NativeValue {
  /** -1 for a value that lives inside one instruction only and has no memory. */
  readonly slot: number;
  readonly column: number;
  readonly width: number;
  /** Floats from one row to the next: the width of the value that this one is a view of. */
  readonly stride: number;
  readonly rows: NativeRows;
}

export interface NativeWeight {
  /** GGUF's type id. */
  readonly type: number;
  /** Elements of a row. */
  readonly width: number;
  readonly rows: number;
}

export interface NativeRope {
  readonly ratio: number;
  readonly stretches: Float64Array;
  readonly magnitude: number;
}

/**
 * One instruction of a program. Operations of the graph but matmuls are instructions as they are, with the fields that
 * src/graph/operation.ts declares, optional ones absent or given; matmuls and fused groups have the shapes below. A file
 * of native/cpu/instructions/ reads each kind and checks every field of it.
 */
export interface NativeInstruction {
  readonly kind: string;
}

/** One weight of a `matmul` instruction and the epilogue of its results; ids of weights and values, -1 for none. */
export interface NativeMatmul {
  readonly weight: number;
  readonly scale: number;
  readonly bias: number;
  /** Any number: every result x becomes softCap × tanh(x / softCap); 0 for none. */
  readonly softCap: number;
  readonly out: number;
}

/** Norms the input (unless `norm` is -1), quantizes it once, then multiplies it with every weight. */
export interface NativeMatmulInstruction extends NativeInstruction {
  readonly kind: "matmul";
  readonly input: number;
  readonly norm: number;
  readonly epsilon: number;
  /** With an activation exactly two, gate and up, whose own `out` is -1. */
  readonly matmuls: readonly NativeMatmul[];
  /** Of a gated linear unit, or "none". */
  readonly activation: string;
  /** The value of activation(gate) × up; -1 without an activation. */
  readonly gatedOut: number;
  /** Added to the result of the only matmul; -1 for none. */
  readonly residual: number;
}

/** A stack of matrices of a `grouped-matmul` instruction; ids of weights, -1 for none. */
export interface NativeMatrixStack {
  readonly weight: number;
  /** One factor per matrix. */
  readonly scale: number;
  /** One row per matrix. */
  readonly bias: number;
  readonly matrixRows: number;
  /** The first row of each matrix that is used. */
  readonly firstOutput: number;
}

/** Multiplies each slot of a row with a matrix of a stack; ids of values, -1 for none. */
export interface NativeGroupedMatmulInstruction extends NativeInstruction {
  readonly kind: "grouped-matmul";
  readonly input: number;
  /** The result of `route-experts`; without it, slot s has matrix s. */
  readonly routing: number;
  readonly slots: number;
  /** Columns from one slot's input to the next; 0: all slots have the same. */
  readonly inputStride: number;
  readonly outputs: number;
  readonly weighted: boolean;
  /** One; with an activation two, gate and up. */
  readonly matmuls: readonly NativeMatrixStack[];
  /** Of a gated linear unit, or "none". */
  readonly activation: string;
  /** Whether the results of a row's slots are added up. */
  readonly summed: boolean;
  /** Added to the sum; -1 for none. */
  readonly residual: number;
  readonly out: number;
}

/** Rope of queries and keys, which share everything but their heads, and the KV write, in one instruction. */
export interface NativeRopeStoreInstruction extends NativeInstruction {
  readonly kind: "rope-store";
  readonly layer: number;
  readonly query: number;
  readonly queryHeads: number;
  readonly queryOut: number;
  readonly key: number;
  readonly keyHeads: number;
  readonly headWidth: number;
  readonly rotaryWidth: number;
  readonly style: "adjacent" | "halves";
  readonly rope: number;
  readonly factors?: number;
  readonly value: number;
}

export interface NativeProgramSpec {
  readonly isa: string;
  readonly threads: number;
  /** Results depend on a row and its own sequence alone. */
  readonly deterministic: boolean;
  readonly slots: readonly NativeSlot[];
  readonly values: readonly NativeValue[];
  readonly weights: readonly NativeWeight[];
  readonly ropes: readonly NativeRope[];
  readonly instructions: readonly NativeInstruction[];
  readonly kv: NativeKvShape;
  readonly vocabularySize: number;
  readonly hidden: number;
  /** -1 if the program computes no logits. */
  readonly logits: number;
  readonly maxTokens: number;
  readonly maxOutputs: number;
  readonly contextTokens: number;
}

export interface NativeWeightLocation {
  readonly region: NativeRegion;
  readonly byteOffset: number;
  readonly sizeBytes: number;
}

export interface NativeOutputRequest {
  readonly row: number;
  readonly want: "candidates" | "logits" | "hidden";
  /** Candidates wanted; 0 for the others. */
  readonly count: number;
  readonly biasIds: Int32Array | undefined;
  readonly biasValues: Float32Array | undefined;
  readonly allowMask: Uint32Array | undefined;
}

/** Copied before `run` returns. */
export interface NativeStepInput {
  readonly tokens: Int32Array;
  readonly positions: Int32Array;
  readonly sequenceOffsets: Int32Array;
  /**
   * All tables, one after the other; table i is [tableOffsets[i], tableOffsets[i + 1]). Those of the sequences in the first
   * cache group, then those in the next; as many as sequences serve all groups. Empty without a cache.
   */
  readonly blockTables: Int32Array;
  readonly tableOffsets: Int32Array;
  /** For programs with recurrent states: each sequence's slot, -1 for zeros; absent if the program has none. */
  readonly stateReads?: Int32Array;
  /** For programs with recurrent states: the slot that gets the states after each token, -1 for none. */
  readonly stateWrites?: Int32Array;
  readonly outputs: readonly NativeOutputRequest[];
}

export type NativeOutputRow =
  | { readonly kind: "candidates"; readonly ids: Int32Array; readonly logits: Float32Array; readonly logSum: number }
  | { readonly kind: "logits"; readonly logits: Float32Array; readonly logSum: number }
  | { readonly kind: "hidden"; readonly values: Float32Array }
  | { readonly kind: "not-finite"; readonly column: number };

export interface NativeStep {
  readonly result: Promise<readonly NativeOutputRow[]>;
  /** Ends the step between two instructions, with CANCELLED. */
  cancel(): void;
}

/**
 * The time that a program has taken since it was compiled: by kind of instruction, with `setup` before the first and
 * `outputs` after the last. `waiting` is the part of all these that its first thread spent waiting for other threads.
 */
export interface NativeProfileEntry {
  readonly kind: string;
  readonly calls: number;
  readonly milliseconds: number;
}

export interface NativeProgram {
  /** One location per weight; may be called again when weights have moved. */
  bind(weights: readonly NativeWeightLocation[]): void;
  scratchBytes(tokens: number, outputs: number, scored: number): number;
  run(step: NativeStepInput, kvCache: NativeKvCache | undefined): NativeStep;
  profile(): readonly NativeProfileEntry[];
  /** Steps in flight keep what they need. */
  dispose(): void;
}

export interface NativeAddon {
  /** The version of these bindings; the TypeScript side refuses any other. */
  readonly bindingsVersion: number;
  /** Instruction sets that this build has and this machine can run, best first. */
  readonly isas: readonly string[];
  mapRegion(address: bigint, sizeBytes: number): NativeRegion;
  allocateRegion(sizeBytes: number): NativeRegion;
  createKvCache(options: NativeKvOptions): NativeKvCache;
  kvCacheBytes(options: NativeKvOptions): number;
  compile(spec: NativeProgramSpec): NativeProgram;
  /** Confines the computing threads of this process to some processors; none: to those that the process may use. */
  confineThreads(processors: readonly number[]): void;
  /** Reads memory of its own sequentially with that many threads; the best of several passes, in bytes per second. */
  measureReadBandwidth(sizeBytes: number, threads: number): Promise<number>;
  /**
   * Runs 8-bit dot products of registers with that many threads; the best of several passes, in multiply-adds per second of
   * all threads. 0 if the instruction set has no instruction for dot products.
   */
  measureDotProductPeak(isa: string, threads: number): Promise<number>;
}
