// A model as its user holds it: text or token ids in, text or logits out. Opening maps the file and builds the plan;
// the vocabulary is decoded on first use, weights are loaded by the first step.

import type { Backend } from "../backends/contract.js";
import { BackendError, ContextError, GgufError, ModelError } from "../errors.js";
import { Lifetime } from "../lifetime.js";
import { GgufLoader } from "../loader/gguf-loader.js";
import type { LoadingProgress, LoadingStats } from "../loader/loading-stats.js";
import { optionalCount, refuseUnknownKeys, refuseValue } from "../options.js";
import { ExecutionPlan } from "../plan/execution-plan.js";
import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";
import { checkTokens } from "../plan/step-check.js";
import { Sampler } from "../sampler/sampler.js";
import { SAMPLER_DEFAULTS, type SamplerOptions } from "../sampler/options.js";
import { checkTokenizerMetadata, createTokenizer, type EncodeOptions, type Tokenizer } from "../tokenizer/tokenizer.js";
import { resolveDryBreakers } from "./dry-breakers.js";
import { Generation } from "./generation.js";
import { measurePerplexity, type PerplexityProgress } from "./perplexity.js";
import { KvSpace } from "./kv-space.js";
import { Sequence } from "./sequence.js";

/** The smallest window whose second half predicts a token. */
const MIN_WINDOW_TOKENS = 3;

export interface ModelOptions {
  /** Positions a sequence may reach; by default the model's own context, but at most 4,096. */
  readonly contextTokens?: number;
  readonly onProgress?: (progress: LoadingProgress) => void;
}

export interface GenerateOptions extends Partial<Omit<SamplerOptions, "dryBreakers">> {
  /** Texts past which DRY follows no repetition back; line ends, colons, quotes and stars by default. */
  readonly dryBreakers?: readonly string[];
  /** The most tokens to write; by default as many as the context holds. */
  readonly maxTokens?: number;
  /** Text that ends the generation and is not part of it. */
  readonly stop?: string | readonly string[];
  readonly signal?: AbortSignal;
  /** Go on past end-of-generation tokens. */
  readonly ignoreEndOfGeneration?: boolean;
}

export interface PerplexityOptions {
  readonly windowTokens?: number;
  readonly signal?: AbortSignal;
}

const GENERATE_OPTION_NAMES = ["maxTokens", "stop", "signal", "ignoreEndOfGeneration", ...Object.keys(SAMPLER_DEFAULTS)];

export class Model implements AsyncDisposable {
  readonly plan: ExecutionPlan;
  readonly contextTokens: number;
  readonly #loader: GgufLoader;
  readonly #backend: Backend;
  readonly #lifetime = new Lifetime("the model");
  readonly #space: KvSpace;
  #tokenizer: Tokenizer | undefined;
  #closing: Promise<void> | undefined;

  private constructor(loader: GgufLoader, backend: Backend, plan: ExecutionPlan) {
    this.#loader = loader;
    this.#backend = backend;
    this.plan = plan;
    this.contextTokens = plan.config.contextTokens;
    this.#space = new KvSpace(plan);
  }

  /** Owns `backend` from here on: it is disposed with the model, or at once when opening fails. */
  static async open(path: string, backend: Backend, options: ModelOptions = {}): Promise<Model> {
    let loader: GgufLoader | undefined;
    const { contextTokens } = options;
    try {
      if (typeof path !== "string") refuseValue("loadModel", "path", "the path of a file", path);
      optionalCount("loadModel", "contextTokens", contextTokens, 1, MAX_CONTEXT_TOKENS);
      loader = await GgufLoader.open(path);
      if (loader.file.tensors.size === 0) throw noTensors(path);
      checkTokenizerMetadata(loader.file.metadata);
      if (options.onProgress !== undefined) loader.onProgress(options.onProgress);
      // Disposing the loader disposes the plan, should anything below fail.
      const plan = ExecutionPlan.fromLoader(loader, backend, contextTokens === undefined ? {} : { contextTokens });
      requireWholeVocabulary(loader, plan);
      refuseContext(plan);
      return new Model(loader, backend, plan);
    } catch (error) {
      await loader?.[Symbol.asyncDispose]();
      await backend[Symbol.asyncDispose]();
      throw error;
    }
  }

  get vocabularySize(): number {
    return this.plan.program.vocabularySize;
  }

  get tokenizer(): Tokenizer {
    this.#lifetime.assertAlive();
    this.#tokenizer ??= createTokenizer(this.#loader.file.metadata);
    return this.#tokenizer;
  }

  tokenize(text: string, options?: EncodeOptions): Int32Array {
    return this.tokenizer.encode(text, options);
  }

  detokenize(ids: Iterable<number>): string {
    return this.tokenizer.decode(ids);
  }

  loadingStats(): LoadingStats {
    return this.plan.loadingStats();
  }

  /** Continues a prompt. Nothing runs until the result is iterated; it may be iterated once. */
  generate(prompt: string | Int32Array | readonly number[], options: GenerateOptions = {}): Generation {
    refuseUnknownKeys("generate", options, GENERATE_OPTION_NAMES);
    const { maxTokens, stop = [], signal, ignoreEndOfGeneration = false, dryBreakers, ...sampling } = options;
    const repeats = (sampling.dryMultiplier ?? 0) > 0;
    const tokens = this.#promptTokens(prompt);
    const room = this.contextTokens - tokens.length;
    if (tokens.length === 0) refuseValue("generate", "prompt", "at least one token", "none");
    if (signal !== undefined && !(signal instanceof AbortSignal)) refuseValue("generate", "signal", "an AbortSignal", signal);
    if (room < 1) throw promptTooLong(tokens.length, this.contextTokens);
    const wanted = optionalCount("generate", "maxTokens", maxTokens, 1, Number.MAX_SAFE_INTEGER) ?? room;
    return new Generation({
      plan: this.plan,
      space: this.#space,
      tokenizer: this.tokenizer,
      sampler: new Sampler(
        repeats ? { ...sampling, dryBreakers: resolveDryBreakers(dryBreakers, this.tokenizer) } : sampling,
        { vocabularySize: this.vocabularySize },
      ),
      prompt: tokens,
      maxTokens: Math.min(wanted, room),
      stop: stopStrings(stop),
      ignoreEndOfGeneration,
      signal,
    });
  }

  /** The logits after each token, row after row: tokens × vocabulary. */
  async logits(ids: Int32Array | readonly number[]): Promise<Float32Array> {
    const tokens = this.#promptTokens(ids);
    if (tokens.length > this.contextTokens) throw promptTooLong(tokens.length, this.contextTokens);
    const result = allocateLogits(tokens.length, this.vocabularySize);
    if (tokens.length === 0) return result;
    using sequence = await Sequence.open({ plan: this.plan, space: this.#space }, tokens.length);
    let filled = 0;
    for await (const row of sequence.feed(tokens, () => ({ want: { kind: "logits" } }))) {
      if (row.kind !== "logits") continue;
      result.set(row.logits, filled);
      filled += row.logits.length;
    }
    return result;
  }

  /** How surprised the model is by a text; yields after each window, the last is the result. */
  perplexity(text: string, options: PerplexityOptions = {}): AsyncGenerator<PerplexityProgress, void, undefined> {
    refuseUnknownKeys("perplexity", options, ["windowTokens", "signal"]);
    const { tokenizer } = this;
    const windowTokens =
      optionalCount("perplexity", "windowTokens", options.windowTokens, MIN_WINDOW_TOKENS, this.contextTokens) ?? this.contextTokens;
    return measurePerplexity({
      plan: this.plan,
      space: this.#space,
      tokens: tokenizer.encode(text),
      windowTokens,
      bosToken: tokenizer.addsBos ? tokenizer.bosToken : undefined,
      signal: options.signal,
    });
  }

  /** Ends what is under way, then frees everything. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  dispose(): Promise<void> {
    return this[Symbol.asyncDispose]();
  }

  async #close(): Promise<void> {
    this.#lifetime.end();
    await this.plan[Symbol.asyncDispose]();
    this.#space[Symbol.dispose]();
    await this.#loader[Symbol.asyncDispose]();
    await this.#backend[Symbol.asyncDispose]();
  }

  /** Checked as the caller gave them: a typed array would wrap 2³² + 5 to 5. */
  #promptTokens(prompt: string | Int32Array | readonly number[]): Int32Array {
    this.#lifetime.assertAlive();
    if (typeof prompt === "string") return this.tokenize(prompt);
    if (!Array.isArray(prompt) && !ArrayBuffer.isView(prompt)) refuseValue("model", "prompt", "text or a list of token ids", prompt);
    checkTokens(prompt, this.vocabularySize);
    return Int32Array.from(prompt);
  }
}

/** Ids that the model can choose and the tokenizer cannot spell would fail in the middle of an answer. */
function requireWholeVocabulary(loader: GgufLoader, plan: ExecutionPlan): void {
  const tokens = loader.file.metadata.array("tokenizer.ggml.tokens")?.length;
  const { vocabularySize } = plan.program;
  if (tokens === undefined || tokens === vocabularySize) return;
  throw new GgufError("GGUF_TOKENIZER", {
    field: "tokenizer.ggml.tokens",
    expected: `${vocabularySize} tokens, as many as the embedding has rows`,
    found: String(tokens),
  });
}

function stopStrings(stop: string | readonly string[]): readonly string[] {
  const stops = typeof stop === "string" ? [stop] : stop;
  if (!Array.isArray(stops) || stops.some((text) => typeof text !== "string" || text === "")) {
    refuseValue("generate", "stop", "text, or a list of texts, none of them empty", JSON.stringify(stop));
  }
  return stops;
}

function noTensors(path: string): ModelError {
  return new ModelError("MODEL_INVALID", `[model] ${path} has no tensors: it is a vocabulary, which loadTokenizer opens`, {
    details: { path },
  });
}

function promptTooLong(tokens: number, contextTokens: number): ContextError {
  return new ContextError(
    "CONTEXT_OVERFLOW",
    `[context] the prompt has ${tokens} tokens and the context holds ${contextTokens}, one of them for the answer; ` +
      `shorten the prompt or ask for a larger context`,
    { details: { tokens, contextTokens } },
  );
}

function refuseContext(plan: ExecutionPlan): void {
  const { contextTokens } = plan.config;
  const neededBytes = plan.kvCacheBytes(contextTokens);
  const { availableBytes } = plan.backend.memory();
  if (neededBytes <= availableBytes) return;
  throw new BackendError(
    "BACKEND_MEMORY",
    `[context] a context of ${contextTokens} tokens needs ${neededBytes} bytes of KV cache and ${availableBytes} are ` +
      `free, enough for about ${Math.floor((contextTokens * availableBytes) / neededBytes)} tokens`,
    { details: { contextTokens, neededBytes, availableBytes } },
  );
}

function allocateLogits(tokens: number, vocabularySize: number): Float32Array {
  try {
    return new Float32Array(tokens * vocabularySize);
  } catch (error) {
    throw new BackendError("BACKEND_MEMORY", `[logits] ${tokens} × ${vocabularySize} logits cannot be allocated`, {
      details: { tokens, vocabularySize },
      cause: error,
    });
  }
}
