// The backend contract: a backend uploads tensors, compiles a Program once, and runs steps of it over a paged KV cache.
// The step is the only contract between plans and serving. Everything here is checked before a backend sees it
// (plan/step-check.ts), and a native backend checks again in its bindings.

import type { StepSize } from "../graph/memory-plan.js";
import type { Operation } from "../graph/operation.js";
import type { KvShape, Program } from "../graph/program.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";
import type { DeviceTensor } from "../tensor/device-tensor.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { StepShape, WarmUpStep } from "./warm-up-step.js";
import type { KernelTime, ProfileOptions, TunedChoice, TuneOptions, TuneReport } from "./tuning.js";

/** A range of a mapped file. The mapping lives as long as the loader; reading its address afterwards throws. */
export interface MappedLocation {
  readonly mapping: { readonly address: bigint; readonly sizeBytes: number };
  readonly byteOffset: number;
}

/** Where an upload gets its bytes; the backend chooses how to transfer them. */
export interface TensorSource {
  readonly descriptor: TensorDescriptor;
  /** Fills `target` with the tensor's bytes from `byteOffset` on; fails if the file has shrunk. */
  read(target: Uint8Array, byteOffset: number): Promise<void>;
  /**
   * Location of the bytes in the file's mapping, for code that computes from it directly; undefined if the file is not
   * mapped.
   */
  mappedLocation(): MappedLocation | undefined;
}

/** How keys and values are stored: exact (f32), in half the memory (f16), or in about a quarter (q8_0). */
export type KvCacheType = "f32" | "f16" | "q8_0";

/** Shape, size and type of a KV cache. */
export interface KvCacheOptions extends KvShape {
  /** Number of blocks of every cache group. */
  readonly blocks: number;
  /** The number of each group if they differ; `blocks` is then the largest. */
  readonly blocksByGroup?: readonly number[];
  readonly blockTokens: number;
  readonly type: KvCacheType;
  /** Number of slots for recurrent states, each with all states of one sequence; absent: 0. */
  readonly stateSlots?: number;
}

/** A paged KV cache in a backend's memory. A running step keeps what it needs of a cache that is disposed meanwhile. */
export interface KvCache extends Disposable {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
  readonly disposed: boolean;
  /**
   * Copies whole blocks of one cache group, the first by default, keys and values of all its layers: from, to, from, to …
   * Steps launched earlier finish first, and steps launched later see the copies. A block is a target at most once and
   * never also a source; the array may be changed once this returns.
   */
  copyBlocks(pairs: Int32Array, group?: number): void;
  /**
   * Copies the first `blocks` blocks of every cache group (or as many as the list has for each) of `source`, a cache of
   * the same backend that differs from this one in its numbers of blocks and state slots alone, to the same places, and
   * all its state slots, which this one must have. No step may be using either cache; steps that are launched later find
   * it done, and `source` may be disposed at once.
   */
  copyFrom(source: KvCache, blocks: number | readonly number[]): void;
}

/** What one output row of a step should contain. */
export type OutputWant =
  | { readonly kind: "candidates"; readonly count: number }
  | { readonly kind: "logits" }
  /** One token, chosen by `sampling`, and the `top` most likely ones. */
  | { readonly kind: "token"; readonly sampling: TokenSampling; readonly top: number }
  | { readonly kind: "hidden" };

/**
 * How a token is chosen from a row's logits after bias and mask: penalties, top-k, typical, top-p, min-p, XTC,
 * temperature, draw, in this order; `src/sampler/token-choice.ts` defines them. `topK` and `minP` are off at 0, `typicalP`
 * and `topP` at 1. The random number is part of it, so that a backend keeps no state.
 */
export interface TokenSampling {
  /** 0 chooses the most likely token after penalties, the lowest id among equals. */
  readonly temperature: number;
  readonly topK: number;
  readonly typicalP: number;
  readonly topP: number;
  readonly minP: number;
  /** The fewest tokens that a truncating stage leaves; at least 1. */
  readonly minKeep: number;
  /** Removes the tokens with at least this probability, except the least likely of them; absent: none. */
  readonly xtcThreshold?: number;
  readonly penalties?: TokenPenalties;
  /** Random number in [0, 1). */
  readonly draw: number;
}

/**
 * Changes of single logits before truncation, which log-probabilities do not contain. A logit is divided by its factor if
 * positive and multiplied by it if not, lowered by its decrease, and rounded to f32.
 */
export interface TokenPenalties {
  /** Ascending, each once. */
  readonly ids: Int32Array;
  readonly factors: Float32Array;
  readonly decreases: Float32Array;
}

/** Values added to the logits before candidates are chosen; −Infinity bans a token. */
export interface SparseBias {
  readonly ids: Int32Array;
  readonly values: Float32Array;
}

/** A token whose output is requested, and in which form. */
export interface OutputRequest {
  /** Index of the token among all tokens of the step. */
  readonly row: number;
  readonly want: OutputWant;
  readonly bias?: SparseBias;
  /** Bit i of word i/32 allows token i; absent allows all. */
  readonly allowMask?: Uint32Array;
}

/** The input of one step. Its arrays belong to the backend until the step has settled and must not change before. */
export interface StepInput {
  /** Tokens of all sequences, concatenated. */
  readonly tokens: Int32Array;
  /** Position of each token in its own sequence, from 0 and increasing by one. */
  readonly positions: Int32Array;
  /** Start of each sequence in `tokens`, with one more entry for the end. */
  readonly sequenceOffsets: Int32Array;
  /**
   * The cache blocks of each sequence's positions, in order: one table for each sequence of the first cache group, then
   * those of the next group. As many tables as sequences serve all groups. Sequences may share blocks that this step
   * only reads; a block that it writes occurs once, in one table. Entries before the first position that a query of this
   * step sees are never read, but have to be blocks of the cache.
   */
  readonly blockTables: readonly Int32Array[];
  /** In ascending order of their rows. */
  readonly outputs: readonly OutputRequest[];
  /**
   * For a step that is run before the previous one has ended (`asyncScheduling`): for each token the index of the previous
   * step's output that chooses it, by its first candidate or its token, or −1 for one that is in `tokens`. The token of a
   * row that is not finite is undefined: such a sequence's results are to be dropped.
   */
  readonly previousOutputs?: Int32Array;
  /**
   * For programs with recurrent states: the slot with each sequence's states before its first token; −1 for a sequence
   * whose first position is 0. Sequences may read the same slot if the step does not write it.
   */
  readonly stateReads?: Int32Array;
  /**
   * For programs with recurrent states: for each token the slot that receives the states of its sequence after that
   * token; −1 if they are not needed. A slot is written at most once, and one that is also read only by the sequence
   * that reads it.
   */
  readonly stateWrites?: Int32Array;
}

/** The result of one output request. */
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
  | {
      readonly kind: "token";
      /** -1 if bias and mask exclude every token; `logSum` is -Infinity then. */
      readonly token: number;
      /** Its logit before penalties. */
      readonly logit: number;
      /** The most likely tokens before penalties, as candidates are. */
      readonly ids: Int32Array;
      readonly logits: Float32Array;
      readonly logSum: number;
    }
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

/** Options of one run of a program. */
export interface RunOptions {
  /** Ends the run early, between two layers or before a load, with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** A program compiled for a device; runs steps. */
export interface CompiledProgram extends Disposable {
  /** Whether a step may be run while the previous one computes its tokens (`StepInput.previousOutputs`). */
  readonly asyncScheduling?: boolean;
  /** Device memory of a step of this size besides weights and cache. */
  scratchBytes(size: StepSize): number;
  /** Prepares everything but weights for the prefill of `tokens` tokens, for callers that know their prompt. */
  prepare?(tokens: number): void;
  /** Allocates memory for all weights and for steps, before the weights are loaded. Failures are left to the step. */
  beginLoading?(): void;
  /**
   * Steps to warm up for batches of up to `sequences` sequences, the likeliest first: those whose first run takes
   * longer than later ones. After all of them have run, no step waits for a kernel, a BLAS plan or a graph. Absent if
   * no step ever does.
   */
  warmUpSteps?(sequences: number): readonly WarmUpStep[];
  /**
   * Resolves when everything that a step of this shape needs is compiled and loaded; steps run meanwhile. Never rejects:
   * failures are reported by the step that needs it.
   */
  prepareWarmUp?(shape: StepShape): Promise<void>;
  /** Between two steps: lets the BLAS library choose and load algorithms for steps of this shape. Never rejects. */
  rehearse?(shape: StepShape): Promise<void>;
  /**
   * Times candidates for the free parameters of its kernels on the real weights, uses those that are faster and compute
   * the same from here on, and keeps them for later processes. Steps may run meanwhile, and are slower then.
   */
  tune?(options: TuneOptions): Promise<TuneReport>;
  /** Times the kernels of a step in a KV cache of its own, by this package's kernels alone; absent if there are none. */
  profileKernels?(options: ProfileOptions): Promise<readonly KernelTime[]>;
  /**
   * Runs one step. Weights that are not resident yet are loaded on the way, in program order. Runs may overlap as long
   * as none writes a block that another one reads.
   */
  run(step: StepInput, kvCache: KvCache | undefined, options?: RunOptions): Promise<readonly OutputRow[]>;
}

/** Total and available bytes of a backend's device. */
export interface BackendMemory {
  readonly totalBytes: number;
  readonly availableBytes: number;
}

/** How a backend computes, for people and for reports. */
export interface BackendDescription {
  readonly name: string;
  /** One human-readable line: what computes, and how. */
  readonly summary: string;
  /** Instruction set or device architecture of its kernels. */
  readonly isa?: string;
  /** Number of CPU threads that compute. */
  readonly threads?: number;
}

/** True, or a human-readable reason why something is not supported. */
export type Support = true | { readonly reason: string };

/** What computes a program: a device with its memory and kernels. */
export interface Backend extends AsyncDisposable {
  readonly description: BackendDescription;
  /** The KV cache type if the options name none. */
  readonly defaultKvCacheType: KvCacheType;
  /** Maximum tokens of one step; longer prompts are split into prefill chunks. */
  readonly maxStepTokens: number;
  /** Preferred prefill chunk size, if smaller chunks than `maxStepTokens` are as fast and take less memory. */
  readonly chunkTokens?: number;
  /** Maximum output rows of one step. */
  readonly maxStepOutputs: number;
  /** Sequences that decode together by default; absent: 64. */
  readonly usualSequences?: number;
  /** Whether it wants small quantized matrices of models with recurrent layers as F32; absent: no. */
  readonly widensGates?: boolean;
  /**
   * Resolves when the device can be used, and rejects if it cannot. Until then plans can be built, and other calls
   * block. Absent if a backend is ready from the start.
   */
  ready?(): Promise<void>;
  memory(): BackendMemory;
  /** Whether the backend can compute an operation with these weights; checked when a plan is built. */
  supports(operation: Operation, weights: readonly TensorDescriptor[]): Support;
  /** Device bytes that `upload` of this tensor would take, depending on whether its file is mapped. */
  residentBytes(descriptor: TensorDescriptor, mapped: boolean): number;
  upload(source: TensorSource): Promise<DeviceTensor>;
  /** Whether `createKvCache` supports these options, memory aside; checked when a plan is built. */
  supportsKvCache(options: KvCacheOptions): Support;
  kvCacheBytes(options: KvCacheOptions): number;
  createKvCache(options: KvCacheOptions): KvCache;
  /** `weights[id]` is the handle of the program's weight `id`; nothing is loaded by compiling. */
  compile(program: Program, weights: readonly LazyTensor[], limits: ProgramLimits): CompiledProgram;
  /** Bytes per second at which the device's memory can be read: the limit that a benchmark compares with. */
  measureReadBandwidth?(sizeBytes: number): Promise<number>;
  /**
   * 8-bit multiply-adds per second that the backend's arithmetic units can do: the limit that a benchmark compares prefill
   * of quantized weights with. Undefined if they have no instruction for dot products.
   */
  measureDotProductPeak?(): Promise<number | undefined>;
  /** Notes on accelerations that were disabled because their results were wrong; empty if there are none. */
  notices?(): readonly string[];
  /** What a tuner chose, in this process or an earlier one, and programs use; absent if the backend has no tuner. */
  tuned?(): readonly TunedChoice[];
  /** Times of the backend's start, for benchmarks; undefined before the first step has ended. */
  loadTimings?(): BackendLoadTimings | undefined;
}

/** Times from a backend's start to its first results, which overlap. Start times count from that of the process. */
export interface BackendLoadTimings {
  readonly driverStartMs: number;
  /** Until the device could be used. */
  readonly driverMs: number;
  readonly kernelsStartMs: number;
  /** Until the kernels of the first step were ready. */
  readonly kernelsMs: number;
  readonly weightsStartMs: number;
  /** From the first requested tensor until the last one so far had arrived. */
  readonly weightsMs: number;
  readonly firstStepStartMs: number;
  readonly firstStepMs: number;
}

/** Options that apply to all backends; each backend refuses those that it does not support. */
export interface BackendOptions {
  /** Maximum number of CPU threads. */
  readonly threads?: number;
  readonly device?: string | number;
  /** Bit-exact results: each row depends only on itself and its own sequence; slower prefill. */
  readonly deterministic?: boolean;
  /** Whether a GPU compiles kernels of other step sizes in the background (default); other backends ignore it. */
  readonly prewarm?: boolean;
}
