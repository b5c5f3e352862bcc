// What a backend is: it takes tensors in, compiles a Program once, and runs steps of it over a paged KV cache.
// The step is the one contract between plans and serving. Everything here is checked before a backend sees it
// (plan/step-check.ts), and a native backend checks again in its bindings.

import type { StepSize } from "../graph/memory-plan.js";
import type { Operation } from "../graph/operation.js";
import type { KvShape, Program } from "../graph/program.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";
import type { DeviceTensor } from "../tensor/device-tensor.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";

/** Part of a mapped file. The mapping lives as long as the loader; its address is refused once it does not. */
export interface MappedLocation {
  readonly mapping: { readonly address: bigint; readonly sizeBytes: number };
  readonly byteOffset: number;
}

/** Where an upload gets its bytes; the backend chooses how they travel. */
export interface TensorSource {
  readonly descriptor: TensorDescriptor;
  /** Fills `target` with the tensor's bytes from `byteOffset` on; fails when the file has shrunk. */
  read(target: Uint8Array, byteOffset: number): Promise<void>;
  /** Where the bytes are in the file's mapping, for code that computes straight from it; undefined if the file is not mapped. */
  mappedLocation(): MappedLocation | undefined;
}

/** How keys and values are stored: exact (f32), in half the memory (f16), or in about a quarter (q8_0). */
export type KvCacheType = "f32" | "f16" | "q8_0";

export interface KvCacheOptions extends KvShape {
  readonly blocks: number;
  readonly blockTokens: number;
  readonly type: KvCacheType;
}

/** A step that is under way keeps what it needs of a cache that is disposed meanwhile. */
export interface KvCache extends Disposable {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
  readonly disposed: boolean;
  /**
   * Copies whole blocks, keys and values of all layers: from, to, from, to … Steps that were launched before end first,
   * and those that are launched later find it done. No block is a target twice, or a source as well; the array is free
   * to change once this returns.
   */
  copyBlocks(pairs: Int32Array): void;
  /**
   * Copies the first `blocks` blocks of `source`, a cache of the same backend that differs from this one in its number
   * of blocks alone, to the same places. No step may be using either cache; steps that are launched later find it done,
   * and `source` may be disposed at once.
   */
  copyFrom(source: KvCache, blocks: number): void;
}

/** What one output row of a step is to hold. */
export type OutputWant =
  | { readonly kind: "candidates"; readonly count: number }
  | { readonly kind: "logits" }
  | { readonly kind: "hidden" };

/** Added to the logits before candidates are chosen; −Infinity bans a token. */
export interface SparseBias {
  readonly ids: Int32Array;
  readonly values: Float32Array;
}

export interface OutputRequest {
  /** Index of the token, among all tokens of the step, whose output is wanted. */
  readonly row: number;
  readonly want: OutputWant;
  readonly bias?: SparseBias;
  /** Bit i of word i/32 allows token i; absent allows all. */
  readonly allowMask?: Uint32Array;
}

/** One step. Its arrays belong to the backend until the step has settled and must not change before. */
export interface StepInput {
  /** Tokens of all sequences, one after the other. */
  readonly tokens: Int32Array;
  /** Position of each token in its own sequence, counted from 0 and rising by one. */
  readonly positions: Int32Array;
  /** Where each sequence starts in `tokens`; one entry more than there are sequences. */
  readonly sequenceOffsets: Int32Array;
  /**
   * For each sequence, the cache blocks of its positions, in order. Sequences may share blocks that this step only
   * reads; a block that it writes stands in one place of one table.
   */
  readonly blockTables: readonly Int32Array[];
  /** Rising rows. */
  readonly outputs: readonly OutputRequest[];
}

export type OutputRow =
  | {
      readonly kind: "candidates";
      /** Most likely first; equal logits by rising id. */
      readonly ids: Int32Array;
      readonly logits: Float32Array;
      /** Log of the sum of exponentials over the whole vocabulary, after bias and mask. */
      readonly logSum: number;
    }
  | { readonly kind: "logits"; readonly logits: Float32Array; readonly logSum: number }
  | { readonly kind: "hidden"; readonly values: Float32Array }
  /** This row's sequence has produced NaN or infinity, first at `column`; other rows are not affected. */
  | { readonly kind: "not-finite"; readonly column: number };

/** The largest step that a program will run, so that a device can allocate memory when it compiles. */
export interface ProgramLimits {
  readonly maxTokens: number;
  readonly maxOutputs: number;
  readonly contextTokens: number;
  readonly blockTokens: number;
  readonly kvCacheType: KvCacheType;
  /** Skips the estimate of whether the model fits; the driver reports if it does not. */
  readonly ignoreMemoryCheck?: boolean;
}

export interface RunOptions {
  /** Ends the run early, between two layers or before a load, with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** A kind of step, by what decides which kernels, BLAS plans and graphs it needs. */
export interface StepShape {
  /** Decoding sequences: one token each, with an output. */
  readonly decoding: number;
  /** Prefill tokens of one more sequence, from its first on, with an output for the last; 0: no such sequence. */
  readonly prompt: number;
  /** Positions that the longest of the decoding sequences has after the step. */
  readonly longest: number;
}

export interface WarmUpStep extends StepShape {
  /** Whether a step of this shape is run once it is prepared, or only its BLAS matmuls (`rehearse`). */
  readonly runs: boolean;
  /** Its first run takes some milliseconds longer than later ones, once it is prepared, so that readiness does not depend on it. */
  readonly deferred: boolean;
}

export interface CompiledProgram extends Disposable {
  /** Device memory that a step of this size takes besides weights and cache. */
  scratchBytes(size: StepSize): number;
  /** Prepares what the prefill of `tokens` tokens needs beside weights, for callers that know their prompt. */
  prepare?(tokens: number): void;
  /**
   * Steps to warm up, the likeliest first, for batches of up to this many sequences: those whose first run takes longer than
   * later ones. After all of them have run, no step waits for a kernel, a BLAS plan or a graph. Absent if no step does.
   */
  warmUpSteps?(sequences: number): readonly WarmUpStep[];
  /**
   * Resolves when everything that a step of this shape needs is compiled and loaded; steps run meanwhile. Never rejects:
   * failures are reported by the step that needs it.
   */
  prepareWarmUp?(shape: StepShape): Promise<void>;
  /** Between two steps: has the BLAS library choose algorithms for steps of this shape and load them. Never rejects. */
  rehearse?(shape: StepShape): Promise<void>;
  /**
   * Runs one step. Weights that are not resident yet are loaded on the way, in program order. Runs may overlap as long
   * as none writes a block that another one reads.
   */
  run(step: StepInput, kvCache: KvCache | undefined, options?: RunOptions): Promise<readonly OutputRow[]>;
}

export interface BackendMemory {
  readonly totalBytes: number;
  readonly availableBytes: number;
}

export interface BackendDescription {
  readonly name: string;
  /** One human-readable line: what computes, and how. */
  readonly summary: string;
  /** The instruction set or device architecture that its kernels were made for. */
  readonly isa?: string;
  /** CPU threads that compute. */
  readonly threads?: number;
}

/** True, or a human-readable reason why not. */
export type Support = true | { readonly reason: string };

export interface Backend extends AsyncDisposable {
  readonly description: BackendDescription;
  /** The KV cache type that is used if the options name none. */
  readonly defaultKvCacheType: KvCacheType;
  /** The most tokens of one step; longer prompts are split into prefill chunks. */
  readonly maxStepTokens: number;
  /** The prefill chunk size to prefer, if smaller ones than `maxStepTokens` are as fast and take less memory. */
  readonly chunkTokens?: number;
  /** The most output rows one step may ask for. */
  readonly maxStepOutputs: number;
  /**
   * Resolves when the device can be used, and rejects if it cannot. Until then plans can be built, and other calls block.
   * Absent if a backend is ready from the start.
   */
  ready?(): Promise<void>;
  memory(): BackendMemory;
  /** Whether the backend can compute an operation with these weights; asked when a plan is built, not during a request. */
  supports(operation: Operation, weights: readonly TensorDescriptor[]): Support;
  /** Device bytes that `upload` of this tensor would take; `mapped` tells whether its file is. */
  residentBytes(descriptor: TensorDescriptor, mapped: boolean): number;
  upload(source: TensorSource): Promise<DeviceTensor>;
  /** Asked when a plan is built: whether `createKvCache` could make such a cache, memory aside. */
  supportsKvCache(options: KvCacheOptions): Support;
  kvCacheBytes(options: KvCacheOptions): number;
  createKvCache(options: KvCacheOptions): KvCache;
  /** `weights[id]` is the handle of the program's weight `id`; nothing is loaded by compiling. */
  compile(program: Program, weights: readonly LazyTensor[], limits: ProgramLimits): CompiledProgram;
  /** Bytes per second at which the device's memory can be read: the limit that a benchmark compares with. */
  measureReadBandwidth?(sizeBytes: number): Promise<number>;
  /** Human-readable notes on what the device computed wrongly and is not used for any more; empty if there is none. */
  notices?(): readonly string[];
  /** Times of the backend's start, for benchmarks; undefined before the first step has ended. */
  loadTimings?(): BackendLoadTimings | undefined;
}

/** Times from a backend's start to its first results; the parts overlap. Starts count from that of the process. */
export interface BackendLoadTimings {
  readonly driverStartMs: number;
  /** Until the device could be used. */
  readonly driverMs: number;
  readonly kernelsStartMs: number;
  /** Until the kernels of the first step were ready. */
  readonly kernelsMs: number;
  readonly weightsStartMs: number;
  /** From the first tensor asked for until the last one so far was there. */
  readonly weightsMs: number;
  readonly firstStepStartMs: number;
  readonly firstStepMs: number;
}

/** What the caller may choose about a backend; each backend refuses what it cannot honour. */
export interface BackendOptions {
  /** The most threads to use. */
  readonly threads?: number;
  readonly device?: string | number;
  /** Each row's result depends on that row and its own sequence alone, bit for bit; slower prefill. */
  readonly deterministic?: boolean;
}
