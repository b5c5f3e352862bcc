// A model ready to run on a backend: handles and a compiled program, no weights. The first step starts the loading, in
// plan order, while it computes; a live plan's tensors stay on the device until it is disposed.

import { detectArchitecture } from "../architectures/registry.js";
import type { HyperParameters, TensorIndex } from "../architectures/descriptor.js";
import type { Backend, CompiledProgram, KvCache, KvCacheType, OutputRow, StepInput } from "../backends/contract.js";
import { BackendError, ModelError } from "../errors.js";
import { GraphBuilder } from "../graph/builder.js";
import { scratchBytes } from "../graph/memory-plan.js";
import type { Program } from "../graph/program.js";
import { Lifetime } from "../lifetime.js";
import type { TensorPin } from "../loader/device-cache.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import type { LoadingStats } from "../loader/loading-stats.js";
import { nearestNames } from "../nearest.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { EmbeddingLookup } from "./embedding-lookup.js";
import { LayerPlan, MISSING, type TensorProblem } from "./layer-plan.js";
import { checkStep } from "./step-check.js";

/** Positions per KV block: small enough to waste little, large enough to keep tables short. */
export const DEFAULT_BLOCK_TOKENS = 32;

/** Models state contexts of 128k and more, whose KV cache would fill the memory of most machines. */
export const DEFAULT_MAX_CONTEXT_TOKENS = 4096;

/** Searching names takes time that a hostile file could multiply, and one hint shows the pattern. */
const MAX_SUGGESTIONS = 3;
/** Lines in the message; the error's details hold every problem. */
const MAX_LISTED_PROBLEMS = 100;

export interface PlanConfig {
  /** Positions that one sequence may reach; by default the model's own context, but at most 4,096. */
  readonly contextTokens?: number;
  readonly blockTokens?: number;
  readonly kvCacheType?: KvCacheType;
}

export interface PlanMemory {
  /** As stored in the file. */
  readonly weightBytes: number;
  /** On the device once all are loaded. */
  readonly residentWeightBytes: number;
  readonly kvCacheBytes: number;
  /** For the largest step. */
  readonly scratchBytes: number;
}

export class ExecutionPlan implements AsyncDisposable {
  readonly parameters: HyperParameters;
  readonly program: Program;
  readonly layers: readonly LayerPlan[];
  readonly config: Required<PlanConfig>;
  readonly backend: Backend;
  readonly #loader: GgufLoader;
  readonly #tensors: readonly LazyTensor[];
  readonly #compiled: CompiledProgram;
  readonly #pin: TensorPin;
  readonly #lifetime = new Lifetime("the execution plan");
  readonly #stopLoading = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #embedding: EmbeddingLookup;
  #loading = false;

  private constructor(loader: GgufLoader, backend: Backend, config: Required<PlanConfig>, draft: PlanDraft) {
    this.#loader = loader;
    this.backend = backend;
    this.config = config;
    this.parameters = draft.parameters;
    this.program = draft.program;
    this.layers = draft.layers;
    this.#tensors = draft.program.weights.map(({ name }) => loader.lazy(name, backend));
    this.#compiled = backend.compile(draft.program, this.#tensors);
    this.#pin = loader.pin(this.#tensors);
    this.#embedding = new EmbeddingLookup(draft, loader, backend);
  }

  /** Makes handles only. Throws with every wrong or missing tensor at once. */
  static fromLoader(loader: GgufLoader, backend: Backend, config: PlanConfig = {}): ExecutionPlan {
    const draft = draftPlan(loader, backend);
    const problems = draft.layers.flatMap((layer) => layer.validate());
    if (problems.length > 0) throw invalidModel(problems, loader);
    const {
      contextTokens = Math.min(draft.parameters.contextLength, DEFAULT_MAX_CONTEXT_TOKENS),
      blockTokens = DEFAULT_BLOCK_TOKENS,
      kvCacheType = backend.defaultKvCacheType,
    } = config;
    return new ExecutionPlan(loader, backend, { contextTokens, blockTokens, kvCacheType }, draft);
  }

  /** Runs tokens of any number of sequences once through the model. */
  async step(step: StepInput, kvCache: KvCache): Promise<readonly OutputRow[]> {
    this.#lifetime.assertAlive();
    const { vocabularySize } = this.program;
    checkStep(step, { vocabularySize, maxStepTokens: this.backend.maxStepTokens, kvCache: kvCache.options });
    this.#startLoading();
    return await this.#track(this.#compiled.run(step, kvCache));
  }

  /** A step of one sequence that owns the whole cache: the logits after its last token. */
  async decode(tokens: Int32Array, position: number, kvCache: KvCache): Promise<Float32Array> {
    const [row] = await this.step(
      {
        tokens,
        positions: Int32Array.from(tokens, (_, index) => position + index),
        sequenceOffsets: Int32Array.of(0, tokens.length),
        blockTables: [Int32Array.from({ length: kvCache.options.blocks }, (_, block) => block)],
        outputs: [{ row: tokens.length - 1, want: { kind: "logits" } }],
      },
      kvCache,
    );
    if (row?.kind !== "logits") throw new BackendError("BACKEND_STEP", "[decode] the backend returned no logits");
    return row.logits;
  }

  /** The embedding row of each token, one after the other. */
  embeddingLookup(tokens: Int32Array): Promise<Float32Array> {
    this.#lifetime.assertAlive();
    return this.#track(this.#embedding.rows(tokens));
  }

  /** A cache with room for `tokens` positions, by default one sequence of the whole context. */
  createKvCache(tokens = this.config.contextTokens): KvCache {
    this.#lifetime.assertAlive();
    return this.backend.createKvCache(this.#kvCacheOptions(tokens));
  }

  /** What a cache for that many positions would take. */
  kvCacheBytes(tokens: number): number {
    return this.backend.kvCacheBytes(this.#kvCacheOptions(tokens));
  }

  loadingStats(): LoadingStats {
    return this.#loader.loadingStats(this.#tensors);
  }

  memory(): PlanMemory {
    const { maxStepTokens } = this.backend;
    const tokens = Math.min(maxStepTokens, this.config.contextTokens);
    const descriptors = this.#tensors.map(({ descriptor }) => descriptor);
    return {
      weightBytes: descriptors.reduce((total, { sizeBytes }) => total + sizeBytes, 0),
      residentWeightBytes: descriptors.reduce((total, tensor) => total + this.backend.residentBytes(tensor), 0),
      kvCacheBytes: this.kvCacheBytes(this.config.contextTokens),
      scratchBytes: scratchBytes(this.program.memory, { tokens, outputs: 1 }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#lifetime.end()) return;
    this.#stopLoading.abort();
    await Promise.allSettled(this.#running);
    this.#compiled[Symbol.dispose]();
    this.#embedding[Symbol.dispose]();
    this.#pin[Symbol.dispose]();
  }

  #kvCacheOptions(tokens: number): Parameters<Backend["createKvCache"]>[0] {
    const { blockTokens, kvCacheType } = this.config;
    return { ...this.program.kv, blocks: Math.ceil(tokens / blockTokens), blockTokens, type: kvCacheType };
  }

  /** Failures are left to the step, which asks for the same tensors and reports them. */
  #startLoading(): void {
    if (this.#loading) return;
    this.#loading = true;
    const prefetch = this.#loader.prefetch(this.#tensors, { signal: this.#stopLoading.signal });
    this.#track(prefetch).catch(() => {
      this.#loading = false;
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

export interface PlanDraft {
  readonly parameters: HyperParameters;
  readonly program: Program;
  readonly layers: readonly LayerPlan[];
}

/** The layers as the file would have them, valid or not. */
export function draftPlan(loader: GgufLoader, backend: Backend): PlanDraft {
  const { tensors, metadata } = loader.file;
  const index: TensorIndex = {
    size: tensors.size,
    has: (name) => tensors.has(name),
    shapeOf: (name) => tensors.get(name)?.shape,
    names: () => tensors.keys(),
  };
  const { descriptor, source } = detectArchitecture(metadata, index);
  const parameters = descriptor.readHyperParameters(source);
  const graph = new GraphBuilder({ fileName: source.fileName, hasTensor: index.has });
  const program = descriptor.buildGraph(graph, parameters);
  const layers = program.segments.map((segment) => new LayerPlan(program, segment, loader, backend));
  return { parameters, program, layers };
}

function invalidModel(problems: readonly TensorProblem[], loader: GgufLoader): ModelError {
  const lines = problems.map(({ tensor, expected, found }, index) => {
    const nearest = found === MISSING && index < MAX_SUGGESTIONS ? nearestNames(tensor, loader.file.tensors.keys()) : [];
    const suggestion = nearest.length === 0 ? "" : ` (nearest: ${nearest.join(", ")})`;
    return `  ${tensor}: expected ${expected}, found ${found}${suggestion}`;
  });
  const shown = lines.slice(0, MAX_LISTED_PROBLEMS);
  if (shown.length < lines.length) shown.push(`  … and ${lines.length - shown.length} more`);
  const many = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  return new ModelError("MODEL_INVALID", `[plan] ${many} with the model's tensors:\n${shown.join("\n")}`, {
    details: { problems },
  });
}
