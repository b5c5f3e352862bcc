// A model ready to run on a backend: tensor handles and a compiled program, without weights. The first step starts
// loading them, in plan order, while it computes; the tensors of a plan stay on the device until it is disposed.

import type { HyperParameters } from "../architectures/descriptor.js";
import type {
  Backend,
  CompiledProgram,
  KvCache,
  OutputRow,
  ProgramLimits,
  RunOptions,
  StepInput,
} from "../backends/contract.js";
import type { StepShape, WarmUpStep } from "../backends/warm-up-step.js";
import type { KernelTime, ProfileOptions, TuneOptions, TuneReport } from "../backends/tuning.js";
import { cacheBlocks, LEAST_STATE_SLOTS, stateBytes } from "../backends/cache-size.js";
import { BackendError } from "../errors.js";
import { kvGroups } from "../graph/cache-groups.js";
import type { Program } from "../graph/program.js";
import { Lifetime } from "../lifetime.js";
import type { TensorPin } from "../loader/device-cache.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import type { LoadingStats } from "../loader/loading-stats.js";
import { optionalCount } from "../options.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { DraftHeadPlan } from "./draft-head-plan.js";
import { EmbeddingLookup } from "./embedding-lookup.js";
import type { LayerPlan } from "./layer-plan.js";
import { requireFinite } from "./output-row.js";
import { MAX_CONTEXT_TOKENS, type PlanConfig } from "./plan-config.js";
import { draftPlan, type PlanDraft, unusableModel } from "./plan-draft.js";
import { kvCacheOptions, refuseUnfitPlan, residentBytes } from "./plan-needs.js";
import { PlanResidency } from "./residency.js";
import { ownStateSlots } from "./state-slot-check.js";
import { StepCheck } from "./step-check.js";

/** The memory that a plan needs, by purpose. */
export interface PlanMemory {
  /** Bytes of the weights in the file. */
  readonly weightBytes: number;
  /** Bytes of the weights on the device once all are loaded. */
  readonly residentWeightBytes: number;
  readonly weightElements: number;
  /** Bytes of a KV cache for the whole context, with the recurrent states. */
  readonly kvCacheBytes: number;
  /** Bytes of the recurrent states of one sequence; 0 if no layer is recurrent. */
  readonly stateBytes: number;
  /** Bytes of scratch memory for the largest step. */
  readonly scratchBytes: number;
}

/** A model on a backend: runs steps and creates KV caches. */
export class ExecutionPlan implements AsyncDisposable {
  readonly parameters: HyperParameters;
  readonly program: Program;
  readonly layers: readonly LayerPlan[];
  readonly config: Required<PlanConfig>;
  readonly backend: Backend;
  /** The model's draft head, if the options ask for it. */
  readonly draftHead: DraftHeadPlan | undefined;
  readonly #loader: GgufLoader;
  readonly #tensors: readonly LazyTensor[];
  readonly #limits: ProgramLimits;
  readonly #compiled: CompiledProgram;
  readonly #check: StepCheck;
  readonly #pin: TensorPin;
  readonly #unregister: () => void;
  readonly #lifetime = new Lifetime("the execution plan");
  readonly #ending = new AbortController();
  readonly #combinedSignals = new WeakMap<AbortSignal, AbortSignal>();
  readonly #running = new Set<Promise<unknown>>();
  #embedding: EmbeddingLookup | undefined;
  #residency: PlanResidency | undefined;
  #isLoading = false;
  #stepsInFlight = 0;
  #closing: Promise<void> | undefined;

  private constructor(loader: GgufLoader, backend: Backend, draft: PlanDraft) {
    const { config } = draft;
    this.#loader = loader;
    this.backend = backend;
    this.config = config;
    this.parameters = draft.parameters;
    this.program = draft.program;
    this.layers = draft.layers;
    this.#tensors = draft.program.weights.map((spec) => loader.lazy(spec.name, backend, spec));
    this.#limits = {
      maxTokens: Math.min(backend.maxStepTokens, config.contextTokens),
      maxOutputs: Math.min(backend.maxStepOutputs, config.contextTokens),
      ...config,
    };
    const { vocabularySize, kv } = draft.program;
    this.#check = new StepCheck({ ...this.#limits, vocabularySize, kv });
    // Last, because the compiled program has to be released.
    this.#compiled = backend.compile(draft.program, this.#tensors, this.#limits);
    this.draftHead = this.#compileDraftHead(draft.draftProgram);
    this.#pin = loader.pin(this.#tensors);
    this.#unregister = loader.register(this);
  }

  /** Builds a plan without loading weights. Throws with every wrong or missing tensor at once. */
  static fromLoader(loader: GgufLoader, backend: Backend, config: PlanConfig = {}): ExecutionPlan {
    const draft = draftPlan(loader, backend, config);
    const problems = draft.layers.flatMap((layer) => layer.validate());
    if (problems.length > 0) throw unusableModel(problems, loader, backend);
    refuseUnfitPlan(draft.program, draft.config, loader, backend);
    return new ExecutionPlan(loader, backend, draft);
  }

  /** Whether a step may be run before the previous one has ended; not if that may be another caller's, as a warm-up's. */
  get asyncScheduling(): boolean {
    return this.#compiled.asyncScheduling === true && this.#stepsInFlight < 2;
  }

  /** Prepares everything but weights for a prefill of `tokens` tokens. */
  prepareStep(tokens: number): void {
    this.#lifetime.assertAlive();
    this.#compiled.prepare?.(Math.min(tokens, this.#limits.maxTokens));
  }

  /** Steps that a warm-up prepares and runs for batches of up to `sequences` sequences; empty if first steps take no longer than later ones. */
  warmUpSteps(sequences: number): readonly WarmUpStep[] {
    this.#lifetime.assertAlive();
    return this.#compiled.warmUpSteps?.(sequences) ?? [];
  }

  /** Resolves when everything but weights is ready for a step of this shape. */
  async prepareWarmUp(shape: StepShape): Promise<void> {
    this.#lifetime.assertAlive();
    await this.#compiled.prepareWarmUp?.(shape);
  }

  /** Lets the BLAS library choose algorithms for the matmuls of a step of this shape. */
  async rehearse(shape: StepShape): Promise<void> {
    this.#lifetime.assertAlive();
    await this.#track(this.#compiled.rehearse?.(shape) ?? Promise.resolve());
  }

  /** Tunes the parameters of the backend's kernels for this model; undefined if it has none that can be tuned. */
  async tune(options: TuneOptions): Promise<TuneReport | undefined> {
    this.#lifetime.assertAlive();
    if (this.#compiled.tune === undefined) return undefined;
    this.#startLoading();
    return await this.#track(this.#compiled.tune({ ...options, signal: this.#endedWith(options.signal) }));
  }

  /** Whether the backend's kernels can be timed one by one. */
  get hasKernels(): boolean {
    return this.#compiled.profileKernels !== undefined;
  }

  /** Times the backend's kernels in a step of this model; none if it has none to tell apart. */
  async profileKernels(options: ProfileOptions): Promise<readonly KernelTime[]> {
    this.#lifetime.assertAlive();
    if (this.#compiled.profileKernels === undefined) return [];
    this.#startLoading();
    return await this.#track(this.#compiled.profileKernels({ ...options, signal: this.#endedWith(options.signal) }));
  }

  /**
   * Starts to load the weights, and resolves when the first one is being loaded. If they cannot fit, nothing is read,
   * and the first step reports why.
   */
  async preload(): Promise<void> {
    this.#lifetime.assertAlive();
    const { residentWeightBytes, scratchBytes } = this.memory();
    if (!this.config.ignoreMemoryCheck && residentWeightBytes + scratchBytes > this.backend.memory().availableBytes)
      return;
    this.#startLoading();
    // The step loads the same tensors and reports failures.
    await Promise.allSettled(this.#tensors.slice(0, 1).map((tensor) => tensor.load()));
  }

  /** Runs tokens of any number of sequences once through the model. */
  async step(step: StepInput, kvCache: KvCache, options: RunOptions = {}): Promise<readonly OutputRow[]> {
    this.#lifetime.assertAlive();
    this.#check.check(step, kvCache);
    this.#startLoading();
    this.#stepsInFlight++;
    try {
      return await this.#track(this.#compiled.run(step, kvCache, { signal: this.#endedWith(options.signal) }));
    } catch (error) {
      if (this.#ending.signal.aborted) this.#lifetime.assertAlive();
      throw error;
    } finally {
      this.#stepsInFlight--;
    }
  }

  /**
   * Runs one sequence that owns the whole cache, in as many steps as necessary; returns the logits after its last
   * token.
   */
  async decode(tokens: Int32Array, position: number, kvCache: KvCache): Promise<Float32Array> {
    const table = Int32Array.from({ length: kvCache.options.blocks }, (_, block) => block);
    let rows: readonly OutputRow[] = [];
    for (let start = 0; start < Math.max(1, tokens.length); start += this.#limits.maxTokens) {
      const chunk = tokens.subarray(start, start + this.#limits.maxTokens);
      const isLast = start + chunk.length === tokens.length;
      const input: StepInput = {
        tokens: chunk,
        positions: Int32Array.from(chunk, (_, index) => position + start + index),
        sequenceOffsets: Int32Array.of(0, chunk.length),
        blockTables: [table],
        outputs: isLast ? [{ row: chunk.length - 1, want: { kind: "logits" } }] : [],
      };
      const states = this.program.kv.states === undefined ? {} : ownStateSlots([0], input);
      rows = await this.step({ ...input, ...states }, kvCache);
    }
    const row = requireFinite(rows[0]);
    if (row.kind !== "logits") throw new BackendError("BACKEND_STEP", "[decode] the backend returned no logits");
    return row.logits;
  }

  /** The embedding row of each token, concatenated. */
  async embeddingLookup(tokens: Int32Array): Promise<Float32Array> {
    this.#lifetime.assertAlive();
    this.#embedding ??= new EmbeddingLookup(this.program, this.#loader, this.backend, this.#limits);
    return await this.#track(this.#embedding.rows(tokens));
  }

  /**
   * Creates a cache for `tokens` positions in every layer, by default one sequence of the whole context: one block table
   * serves all cache groups, and nothing has to be released. Recurrent layers get one state slot, or `stateSlots`.
   */
  createKvCache(tokens = this.config.contextTokens, stateSlots = 1): KvCache {
    this.#lifetime.assertAlive();
    optionalCount("plan", "tokens", tokens, 1, MAX_CONTEXT_TOKENS);
    const blocks = Math.ceil(tokens / this.config.blockTokens);
    const counts = kvGroups(this.program.kv).map(() => blocks);
    return this.createGroupedKvCache(counts, stateSlots);
  }

  /** Creates a cache with these numbers of blocks of each cache group, and of state slots for recurrent layers. */
  createGroupedKvCache(blocks: readonly number[], stateSlots = 1): KvCache {
    this.#lifetime.assertAlive();
    return this.backend.createKvCache(kvCacheOptions(this.program, this.config, blocks, stateSlots));
  }

  /**
   * Blocks of each cache group for sequences that have `tokens` positions together: all of full attention, and of a
   * sliding window what queries see and steps write, with a share for the prefix index.
   */
  kvCacheBlocks(tokens: number, sequences = 1): readonly number[] {
    const { maxStepTokens, chunkTokens = maxStepTokens } = this.backend;
    const stepTokens = Math.min(chunkTokens, this.#limits.maxTokens);
    return cacheBlocks(this.program.kv, { tokens, sequences, stepTokens, blockTokens: this.config.blockTokens });
  }

  /** Bytes of a cache for sequences that have `tokens` positions together, sized by `kvCacheBlocks`. */
  kvCacheBytes(tokens: number, sequences = 1): number {
    const [blocks, slots] = [this.kvCacheBlocks(tokens, sequences), Math.max(LEAST_STATE_SLOTS, sequences)];
    return this.backend.kvCacheBytes(kvCacheOptions(this.program, this.config, blocks, slots));
  }

  /** The tensors of the plan, and which of them are loaded. */
  get residency(): PlanResidency {
    this.#residency ??= new PlanResidency(this.layers, this.backend.description);
    return this.#residency;
  }

  loadingStats(): LoadingStats {
    return this.#loader.loadingStats(this.#tensors);
  }

  memory(): PlanMemory {
    const { maxTokens: tokens, maxOutputs: outputs } = this.#limits;
    const tensors = new Set([...this.#tensors, ...(this.draftHead?.tensors ?? [])]);
    const descriptors = Array.from(tensors, ({ descriptor }) => descriptor);
    return {
      weightBytes: descriptors.reduce((total, { sizeBytes }) => total + sizeBytes, 0),
      residentWeightBytes: residentBytes(descriptors, this.backend, this.#loader),
      weightElements: descriptors.reduce((total, { elements }) => total + elements, 0),
      kvCacheBytes: this.kvCacheBytes(this.config.contextTokens),
      stateBytes: stateBytes(kvCacheOptions(this.program, this.config, [], 1)),
      scratchBytes: this.#compiled.scratchBytes({ tokens, outputs, scored: outputs }),
    };
  }

  #compileDraftHead(program: Program | undefined): DraftHeadPlan | undefined {
    if (program === undefined) return undefined;
    try {
      return new DraftHeadPlan(this.#loader, this.backend, program, this.#limits);
    } catch (error) {
      this.#compiled[Symbol.dispose]();
      throw error;
    }
  }

  /** Cancels running loads and steps, then releases the tensors. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#lifetime.end();
    this.#ending.abort();
    await Promise.allSettled(this.#running);
    this.#compiled[Symbol.dispose]();
    await this.draftHead?.[Symbol.asyncDispose]();
    this.#embedding?.[Symbol.dispose]();
    this.#pin[Symbol.dispose]();
    this.#unregister();
  }

  /**
   * A signal that aborts with the caller's or with this plan; created once per signal, because each listens to both.
   */
  #endedWith(signal: AbortSignal | undefined): AbortSignal {
    if (signal === undefined) return this.#ending.signal;
    const known = this.#combinedSignals.get(signal);
    if (known !== undefined) return known;
    const combined = AbortSignal.any([signal, this.#ending.signal]);
    this.#combinedSignals.set(signal, combined);
    return combined;
  }

  /** Failures are left to the step, which loads the same tensors and reports them. */
  #startLoading(): void {
    if (this.#isLoading) return;
    this.#isLoading = true;
    this.#compiled.beginLoading?.();
    const prefetch = this.#loader.prefetch(this.#tensors, { signal: this.#ending.signal });
    this.#track(prefetch).catch(() => {
      this.#isLoading = false;
    });
  }

  async #track<Result>(work: Promise<Result>): Promise<Result> {
    this.#running.add(work);
    try {
      return await work;
    } finally {
      this.#running.delete(work);
    }
  }
}
