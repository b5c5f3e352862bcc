// A model as its user holds it: text or token ids in, text or logits out. Opening maps the file and builds the plan;
// the vocabulary is decoded on first use, weights are loaded by the first step.

import { setImmediate as nextTurn } from "node:timers/promises";
import type { Backend, BackendLoadTimings } from "../backends/contract.js";
import { type ChatTemplates, readChatTemplates } from "../chat/template/chat-templates.js";
import { BackendError, ContextError } from "../errors.js";
import { Lifetime } from "../lifetime.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import type { LoadingStats } from "../loader/loading-stats.js";
import {
  optionalCount,
  optionalFlag,
  optionalSignal,
  optionText,
  refuseUnknownKeys,
  refuseValue,
  textList,
} from "../options.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";
import { checkTokens } from "../plan/step-check.js";
import { Sampler } from "../sampler/sampler.js";
import { SAMPLER_DEFAULTS, type SamplerOptions } from "../sampler/options.js";
import {
  createTokenizer,
  type EncodeOptions,
  TokenizerBuilder,
  hasTokenizer,
  type Tokenizer,
} from "../tokenizer/tokenizer.js";
import { DEFAULT_DRY_BREAKERS, resolveDryBreakers } from "./dry-breakers.js";
import { Generation } from "./generation.js";
import { measurePerplexity, type PerplexityProgress } from "./perplexity.js";
import { KvSpace } from "./kv-space.js";
import { type ModelOptions, type OpenedPlan, openPlan } from "./open-plan.js";
import { refuseContext } from "./plan-fit.js";
import { Sequence } from "./sequence.js";

/** The smallest window whose second half predicts a token. */
const MIN_WINDOW_TOKENS = 3;

export interface GenerateOptions extends Partial<Omit<SamplerOptions, "dryBreakers">> {
  /** Texts past which DRY follows no repetition back; line ends, colons, quotes and stars by default. */
  readonly dryBreakers?: readonly string[];
  /** The most tokens to write; by default until the context is full. */
  readonly maxTokens?: number;
  /** Text that ends the generation and is not part of it. */
  readonly stop?: string | readonly string[];
  readonly signal?: AbortSignal;
  /** Go on past end-of-generation tokens. */
  readonly ignoreEndOfGeneration?: boolean;
  /** Whether the text of special tokens in a prompt becomes these; true, as a prompt is the program's own. False for text of others. */
  readonly parseSpecial?: boolean;
}

export interface PerplexityOptions {
  readonly windowTokens?: number;
  readonly signal?: AbortSignal;
}

/** The parts overlap. What ends in `StartMs` counts from the start of the process. */
export interface LoadTimings extends BackendLoadTimings {
  /** From the start of the process until the model was asked for. */
  readonly processStartMs: number;
  readonly planStartMs: number;
  /** What the plan took once file and backend were there. */
  readonly planMs: number;
}

export interface OpenOptions extends ModelOptions {
  /** What it takes is loaded at once, and not with the first use. */
  readonly firstPrompt?: string;
}

/** What opening leaves behind. */
interface Opening {
  /** As far as there was time for it. */
  readonly tokenizer: TokenizerBuilder | undefined;
  readonly times: Omit<LoadTimings, keyof BackendLoadTimings>;
}

const GENERATE_OPTION_NAMES = [
  "maxTokens",
  "stop",
  "signal",
  "ignoreEndOfGeneration",
  "parseSpecial",
  ...Object.keys(SAMPLER_DEFAULTS),
];

export class Model implements AsyncDisposable {
  readonly plan: ExecutionPlan;
  readonly contextTokens: number;
  readonly #loader: GgufLoader;
  readonly #backend: Backend;
  readonly #lifetime = new Lifetime("the model");
  readonly #space: KvSpace;
  readonly #opening: Opening;
  #tokenizer: Tokenizer | undefined;
  #closing: Promise<void> | undefined;

  private constructor({ loader, plan }: OpenedPlan, backend: Backend, opening: Opening) {
    this.#loader = loader;
    this.#opening = opening;
    this.#backend = backend;
    this.plan = plan;
    this.contextTokens = plan.config.contextTokens;
    this.#space = new KvSpace(plan);
  }

  /**
   * Owns `backend` from here on: it is disposed with the model, or at once when opening fails. While one that is still
   * starting does, the file is opened and its vocabulary decoded, as far as there is time.
   */
  static async open(
    path: string,
    backend: Backend | Promise<Backend>,
    { firstPrompt, ...options }: OpenOptions = {},
  ): Promise<Model> {
    const processStartMs = performance.now();
    let opened: OpenedPlan | undefined;
    let tokenizer: TokenizerBuilder | undefined;
    try {
      opened = await openPlan(path, backend, options, async ({ file: { metadata } }) => {
        if (!(backend instanceof Promise) || !hasTokenizer(metadata)) return;
        tokenizer = new TokenizerBuilder(metadata);
        await decodeUntil(backend, tokenizer);
      });
      const { plan, planStartMs, planMs } = opened;
      const ready = plan.backend.ready?.();
      if (ready !== undefined) {
        // There is time to see what the prompt takes, too.
        if ((await decodeUntil(ready, tokenizer)) === "decoded" && firstPrompt !== undefined)
          preparePrompt(plan, tokenizer, firstPrompt);
        await ready;
      }
      refuseContext(plan);
      if (firstPrompt !== undefined) {
        // What is left of the vocabulary shares this thread with the loading, and what follows may hold the thread for longer.
        const begun = plan.loadAhead();
        while (tokenizer?.step() === true) await nextTurn();
        await begun;
      }
      return new Model(opened, plan.backend, { tokenizer, times: { processStartMs, planStartMs, planMs } });
    } catch (error) {
      await opened?.loader[Symbol.asyncDispose]();
      await (await backend)[Symbol.asyncDispose]();
      throw error;
    }
  }

  get vocabularySize(): number {
    return this.plan.program.vocabularySize;
  }

  get tokenizer(): Tokenizer {
    this.#lifetime.assertAlive();
    this.#tokenizer ??= this.#opening.tokenizer?.finish() ?? createTokenizer(this.#loader.file.metadata);
    return this.#tokenizer;
  }

  /** How the file says its chats are written, where it does. */
  get chatTemplates(): ChatTemplates {
    return readChatTemplates(this.#loader.file.metadata);
  }

  /** What another thread makes the same tokenizer of. */
  readHeader() {
    return this.#loader.file.readHeader();
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

  /** What the way to the first results took; undefined before them, and where the backend loads nothing. */
  loadTimings(): LoadTimings | undefined {
    const timings = this.#backend.loadTimings?.();
    return timings === undefined ? undefined : { ...this.#opening.times, ...timings };
  }

  /** Continues a prompt. Nothing runs until the result is iterated; it may be iterated once. */
  generate(prompt: string | Int32Array | readonly number[], options: GenerateOptions = {}): Generation {
    refuseUnknownKeys("generate", options, GENERATE_OPTION_NAMES);
    const { maxTokens, stop, signal, ignoreEndOfGeneration, parseSpecial, dryBreakers, ...sampling } = options;
    const stops = textList("generate", "stop", typeof stop === "string" ? [stop] : (stop ?? []));
    const breakers = textList("generate", "dryBreakers", dryBreakers ?? DEFAULT_DRY_BREAKERS);
    optionalSignal("generate", "signal", signal);
    const tokens = this.#promptTokens(prompt, optionalFlag("generate", "parseSpecial", parseSpecial) ?? true);
    // Tokens can be continued without a vocabulary; only text needs one.
    const tokenizer =
      typeof prompt === "string" || stops.length > 0 || hasTokenizer(this.#loader.file.metadata)
        ? this.tokenizer
        : undefined;
    const repeats = tokenizer !== undefined && (sampling.dryMultiplier ?? 0) > 0;
    const room = this.contextTokens - tokens.length;
    if (tokens.length === 0) refuseValue("generate", "prompt", "at least one token", "none");
    if (room < 1) throw tooLong(tokens.length, this.contextTokens, ", one of them for the answer; shorten the prompt");
    const wanted = optionalCount("generate", "maxTokens", maxTokens, 1, Number.MAX_SAFE_INTEGER) ?? room;
    return new Generation({
      plan: this.plan,
      space: this.#space,
      tokenizer,
      sampler: new Sampler(repeats ? { ...sampling, dryBreakers: resolveDryBreakers(breakers, tokenizer) } : sampling, {
        vocabularySize: this.vocabularySize,
      }),
      prompt: tokens,
      maxTokens: Math.min(wanted, room),
      stop: stops,
      ignoreEndOfGeneration: optionalFlag("generate", "ignoreEndOfGeneration", ignoreEndOfGeneration) ?? false,
      signal,
    });
  }

  /** The logits after each token, row after row: tokens × vocabulary. */
  async logits(ids: Int32Array | readonly number[]): Promise<Float32Array> {
    const tokens = this.#promptTokens(ids);
    if (tokens.length > this.contextTokens) throw tooLong(tokens.length, this.contextTokens, "; ask for fewer");
    const result = this.#allocateLogits(tokens.length);
    if (tokens.length === 0) return result;
    using sequence = new Sequence({ plan: this.plan, space: this.#space }, tokens.length);
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
    optionalSignal("perplexity", "signal", options.signal);
    const { tokenizer } = this;
    const windowTokens =
      optionalCount("perplexity", "windowTokens", options.windowTokens, MIN_WINDOW_TOKENS, this.contextTokens) ??
      this.contextTokens;
    return measurePerplexity({
      plan: this.plan,
      space: this.#space,
      // A text to be measured is data, as it is for llama.cpp.
      tokens: tokenizer.encode(text, { parseSpecial: false }),
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

  #allocateLogits(tokens: number): Float32Array {
    const neededBytes = tokens * this.vocabularySize * Float32Array.BYTES_PER_ELEMENT;
    const { availableBytes } = this.#backend.memory();
    try {
      if (neededBytes <= availableBytes) return new Float32Array(tokens * this.vocabularySize);
    } catch {
      // The engine's own limit on arrays is reported like a machine's on memory.
    }
    throw new BackendError(
      "BACKEND_MEMORY",
      `[logits] ${tokens} × ${this.vocabularySize} logits need ${neededBytes} bytes and ${availableBytes} are free; ask for fewer tokens at once`,
      { details: { tokens, vocabularySize: this.vocabularySize, neededBytes, availableBytes } },
    );
  }

  async #close(): Promise<void> {
    this.#lifetime.end();
    await this.plan[Symbol.asyncDispose]();
    this.#space[Symbol.dispose]();
    await this.#loader[Symbol.asyncDispose]();
    await this.#backend[Symbol.asyncDispose]();
  }

  /** Checked as the caller gave them: a typed array would wrap 2³² + 5 to 5. */
  #promptTokens(prompt: string | Int32Array | readonly number[], parseSpecial = true): Int32Array {
    this.#lifetime.assertAlive();
    if (typeof prompt === "string") return this.tokenize(prompt, { parseSpecial });
    if (!Array.isArray(prompt) && !ArrayBuffer.isView(prompt))
      refuseValue("model", "prompt", "text or a list of token ids", prompt);
    checkTokens(prompt, this.vocabularySize);
    return Int32Array.from(prompt);
  }
}

/** Spends the time until something is settled on the vocabulary; tells which came first. */
async function decodeUntil(
  settled: Promise<unknown>,
  tokenizer: TokenizerBuilder | undefined,
): Promise<"settled" | "decoded"> {
  let isWaiting = true;
  const stop = (): void => void (isWaiting = false);
  settled.then(stop, stop);
  // What is settled already leaves no time.
  await undefined;
  while (isWaiting && tokenizer?.step() === true) await nextTurn();
  return isWaiting ? "decoded" : "settled";
}

/** A file that has no usable vocabulary is `generate`'s to refuse. */
function preparePrompt(plan: ExecutionPlan, tokenizer: TokenizerBuilder | undefined, prompt: string): void {
  try {
    const tokens = tokenizer?.finish().encode(prompt).length ?? 0;
    if (tokens > 0) plan.prepareStep(tokens);
  } catch {
    // It is asked for again, and fails where somebody is told.
  }
}

function tooLong(tokens: number, contextTokens: number, rest: string): ContextError {
  return new ContextError(
    "CONTEXT_OVERFLOW",
    `[context] there are ${tokens} tokens and the context holds ${contextTokens}${rest} or open the model with a larger context (${optionText("contextTokens")})`,
    { details: { tokens, contextTokens } },
  );
}
