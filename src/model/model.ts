// A model as its user sees it: text or token ids in, text, vectors or logits out. Opening maps the file and builds the
// plan; the vocabulary is decoded and the engine started at first use, and weights are loaded by the first step.

import type { Backend } from "../backends/contract.js";
import { type ChatTemplates, readChatTemplates } from "../chat/template/chat-templates.js";
import type { DraftingOptions } from "../engine/drafting.js";
import { Engine } from "../engine/engine.js";
import { FailedCompletion } from "../engine/failed-completion.js";
import { readModelSampling } from "../engine/model-sampling.js";
import type { EngineStatistics, TokenConstraint } from "../engine/serving.js";
import { MAX_QUEUED } from "../engine/serving-options.js";
import type { WarmUpOptions } from "../engine/warm-up.js";
import { ContextError } from "../errors.js";
import type { HeaderBytes } from "../gguf/header-bytes.js";
import { Lifetime } from "../lifetime.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import type { LoadingStats } from "../loader/loading-stats.js";
import { optionText, refuseValue } from "../options.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";
import { checkTokens } from "../plan/step-check.js";
import { createTokenizer, type EncodeOptions, hasTokenizer, type Tokenizer } from "../tokenizer/tokenizer.js";
import type { ChatMessage } from "../chat/message.js";
import type { ChatStream } from "../completion/chat-stream.js";
import { Chat } from "./chat.js";
import { type ChatOptions, chatRequest } from "./chat-options.js";
import type { ModelChats } from "./chat-services.js";
import { readSession, Session, type SessionOptions } from "./session.js";
import type { GrammarSpec } from "../grammar/grammar-spec.js";
import { PendingConstraint } from "./pending-constraint.js";
import { checkOptions, type OptionChecks, signal } from "./checked-options.js";
import { completionRequest, GENERATE_CHECKS, type GenerateOptions } from "./generate-options.js";
import { textFormat } from "./response-format.js";
import { Generation } from "./generation.js";
import { LogitsSink } from "./logits.js";
import { modelName } from "../hub/model-name.js";
import { type LoadTimings, type Opening, type OpenOptions, openWithDrafts } from "./opening.js";
import { measurePerplexity, perplexityChecks, type PerplexityOptions, type PerplexityProgress } from "./perplexity.js";

/** A prompt as text or as token ids. */
export type Prompt = string | Int32Array | readonly number[];

/** Options of `model.embed`. */
export interface EmbedOptions {
  /** Aborting rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

const EMBED_CHECKS: OptionChecks<EmbedOptions> = { signal };

/** How the engine of a model is started. */
interface EngineOptions extends Pick<OpenOptions, "concurrency" | "serving"> {
  readonly drafting: DraftingOptions;
}

/** An open model. Concurrent requests are computed in shared steps; dispose it to free its memory. */
export class Model implements AsyncDisposable {
  /** By default the name of its file, without `.gguf`. */
  readonly name: string;
  /** The file it was opened from; the first part of a split model. */
  readonly path: string;
  readonly plan: ExecutionPlan;
  /** Context length: maximum positions of prompt and generated text of one sequence together. */
  readonly contextTokens: number;
  readonly #loader: GgufLoader;
  readonly #backend: Backend;
  readonly #lifetime = new Lifetime("the model");
  readonly #opening: Opening;
  readonly #options: EngineOptions;
  #tokenizer: Tokenizer | undefined;
  #engine: Engine | undefined;
  #chats: Promise<ModelChats> | undefined;
  #closing: Promise<void> | undefined;

  private constructor(opening: Opening, name: string, options: EngineOptions) {
    const { loader, plan } = opening.opened;
    this.name = name;
    this.path = loader.file.path;
    this.#loader = loader;
    this.#opening = opening;
    this.#options = options;
    this.#backend = plan.backend;
    this.plan = plan;
    this.contextTokens = plan.config.contextTokens;
  }

  /**
   * Takes ownership of `backend`, which is disposed with the model, or at once if opening fails. Part of the internals.
   */
  static async open(
    path: string,
    backend: Backend | Promise<Backend>,
    { concurrency, serving, name, ...options }: OpenOptions = {},
  ): Promise<Model> {
    const { opening, drafting } = await openWithDrafts(path, backend, options);
    return new Model(opening, name ?? modelName(path), {
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(serving === undefined ? {} : { serving }),
      drafting,
    });
  }

  /** The engine of this model, started at first use. Part of the internals. */
  get engine(): Engine {
    this.#lifetime.assertAlive();
    this.#engine ??= this.#startEngine();
    return this.#engine;
  }

  get vocabularySize(): number {
    return this.plan.program.vocabularySize;
  }

  /** Throws if the file has no vocabulary. */
  get tokenizer(): Tokenizer {
    this.#lifetime.assertAlive();
    this.#tokenizer ??= this.#opening.tokenizer?.finish() ?? createTokenizer(this.#loader.file.metadata);
    return this.#tokenizer;
  }

  /** The chat templates of the file, if it has any. */
  get chatTemplates(): ChatTemplates {
    return readChatTemplates(this.#loader.file.metadata);
  }

  /**
   * Whether the device was lost or the file is damaged: nothing can be computed any more, and only loading the model
   * again helps.
   */
  get isLost(): boolean {
    return this.#engine?.isLost ?? false;
  }

  /** The file's header, from which another thread builds the same tokenizer. */
  readHeader(): Promise<HeaderBytes> {
    return this.#loader.file.readHeader();
  }

  /** The token ids of a text. */
  tokenize(text: string, options?: EncodeOptions): Int32Array {
    return this.tokenizer.encode(text, options);
  }

  /** The text of token ids, without control tokens. */
  detokenize(ids: Iterable<number>): string {
    return this.tokenizer.decode(ids);
  }

  loadingStats(): LoadingStats {
    return this.plan.loadingStats();
  }

  /** How long loading took; undefined before the first results, and if the backend loads nothing. */
  loadTimings(): LoadTimings | undefined {
    const timings = this.#backend.loadTimings?.();
    return timings === undefined ? undefined : { ...this.#opening.times, ...timings };
  }

  /** The present state of the engine, and its totals. */
  statistics(): EngineStatistics {
    return this.engine.statistics();
  }

  /**
   * Compiles kernels, chooses algorithms and captures graphs for batches and prompts of all sizes, so that no request
   * waits for them; allocates the whole KV cache. Resolves when it is done or the model is disposed; never rejects.
   */
  warmUp(options: WarmUpOptions = {}): Promise<void> {
    return this.engine.warmUp(options);
  }

  /**
   * Continues a prompt. Nothing runs until the generation is iterated or its result is requested. Concurrent
   * generations are batched; those beyond the model's concurrency wait in a queue.
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): Generation {
    checkOptions("generate", options, GENERATE_CHECKS);
    const tokens = this.#promptTokens("generate", prompt, options.parseSpecial ?? true);
    if (tokens.length === 0) refuseValue("generate", "prompt", "at least one token", "none");
    if (tokens.length >= this.contextTokens)
      throw tooLong(tokens.length, this.contextTokens, ", one of them for the answer; shorten the prompt");
    const request = completionRequest(tokens, options, this);
    const { schema, regex, grammar } = options;
    const format = textFormat("generate", { schema, regex, grammar });
    return new Generation((isCancelled) => {
      try {
        if (isCancelled) return this.engine.complete({ ...request, signal: AbortSignal.abort() });
        return this.engine.complete(
          format === undefined ? request : { ...request, constraint: this.#constraint(format, options.signal) },
        );
      } catch (error) {
        return new FailedCompletion(error);
      }
    });
  }

  /**
   * Replies to a conversation with the model's own chat template, with tools, reasoning and structured output. Nothing
   * runs until the chat is iterated or its result is requested. Text of messages never becomes control tokens.
   */
  chat<Value = undefined>(messages: readonly ChatMessage[], options: ChatOptions<Value> = {}): Chat<Value> {
    this.#lifetime.assertAlive();
    const request = chatRequest(messages, options);
    const { signal: ending, timeoutMs, schema } = options;
    const begin = async (): Promise<ChatStream> => {
      const chats = await this.#startChats();
      return chats.completions.start(this.engine, request, {
        ...(ending === undefined ? {} : { signal: ending, endsOnAbort: true }),
        ...(timeoutMs === undefined ? {} : { timeLimitMs: timeoutMs }),
      });
    };
    return new Chat<Value>({ begin, schema, assertAlive: () => this.#lifetime.assertAlive() });
  }

  /** Starts a conversation that keeps its messages from turn to turn. */
  session(options: SessionOptions = {}): Session {
    this.#lifetime.assertAlive();
    return new Session(this, options);
  }

  /** Continues a conversation that `session.save` wrote to a file. */
  async loadSession(path: string, options: Omit<SessionOptions, "system" | "messages"> = {}): Promise<Session> {
    return this.session({ ...options, messages: await readSession(path) });
  }

  /**
   * A vector for each text: the mean of the last layer's hidden states over its tokens, scaled to length 1, so that the
   * dot product of two vectors is their cosine similarity. Texts are batched; token ids may be passed instead of text.
   */
  async embed(inputs: readonly (string | Int32Array)[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    checkOptions("embed", options, EMBED_CHECKS);
    if (!Array.isArray(inputs)) refuseValue("embed", "inputs", "a list of texts or of token ids", inputs);
    const texts = inputs.map((input) => this.#promptTokens("embed", input, false));
    for (const { length } of texts) this.#refuseTooLong(length);
    return await Promise.all(texts.map((tokens) => this.engine.embed(tokens, options.signal)));
  }

  /** The logits after each token, row after row: tokens × vocabulary. */
  async logits(ids: Int32Array | readonly number[]): Promise<Float32Array> {
    const tokens = this.#promptTokens("logits", ids, true);
    this.#refuseTooLong(tokens.length);
    const sink = new LogitsSink(tokens.length, this.vocabularySize, this.#backend.memory());
    if (tokens.length === 0) return sink.finish();
    return await this.engine.score({ tokens, firstOutput: 0, signal: undefined }, sink);
  }

  /** Measures how well the model predicts a text; yields after each window, and the last value is the result. */
  perplexity(text: string, options: PerplexityOptions = {}): AsyncGenerator<PerplexityProgress, void, undefined> {
    checkOptions("perplexity", options, perplexityChecks(this.contextTokens));
    const { tokenizer } = this;
    return measurePerplexity({
      engine: () => this.engine,
      // A text to be measured is data, as it is for llama.cpp.
      tokens: tokenizer.encode(text, { parseSpecial: false }),
      windowTokens: options.windowTokens ?? this.contextTokens,
      bosToken: tokenizer.addsBos ? tokenizer.bosToken : undefined,
      signal: options.signal,
    });
  }

  /** Fails running and queued requests, then frees everything. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The same as `Symbol.asyncDispose`, for code without `await using`. */
  dispose(): Promise<void> {
    return this[Symbol.asyncDispose]();
  }

  async #close(): Promise<void> {
    this.#lifetime.end();
    await (await this.#chats?.catch(() => undefined))?.[Symbol.asyncDispose]();
    await this.#engine?.[Symbol.asyncDispose]();
    // An engine that was started has disposed it; disposing it again does nothing.
    await this.#options.drafting.draftModel?.[Symbol.asyncDispose]();
    await this.plan[Symbol.asyncDispose]();
    await this.#loader[Symbol.asyncDispose]();
    await this.#backend[Symbol.asyncDispose]();
  }

  #constraint(format: GrammarSpec, ending: AbortSignal | undefined): TokenConstraint {
    return new PendingConstraint(
      this.#startChats().then(({ grammars }) => grammars.constraint(this.engine, format, ending)),
    );
  }

  /** Templates and grammars are loaded with the first chat: callers that only generate do not wait for their code. */
  #startChats(): Promise<ModelChats> {
    this.#lifetime.assertAlive();
    this.#chats ??= import("./chat-services.js").then((services) => new services.ModelChats());
    return this.#chats;
  }

  #startEngine(): Engine {
    const { concurrency, serving, drafting } = this.#options;
    return new Engine(
      {
        name: this.name,
        plan: this.plan,
        hasVocabulary: hasTokenizer(this.#loader.file.metadata),
        tokenizer: () => this.tokenizer,
        chatTemplates: () => this.chatTemplates,
        readHeader: () => this.readHeader(),
        sampling: readModelSampling(this.#loader.file.metadata),
        growsKvCache: serving === undefined,
        drafting,
      },
      // Callers in the same process wait for their requests: none is refused because of a long queue.
      serving ?? { ...(concurrency === undefined ? {} : { maxSequences: concurrency }), maxQueued: MAX_QUEUED },
    );
  }

  #refuseTooLong(tokens: number): void {
    if (tokens > this.contextTokens) throw tooLong(tokens, this.contextTokens, "; pass fewer");
  }

  /** Ids are checked before conversion: a typed array would wrap 2³² + 5 to 5. */
  #promptTokens(where: string, prompt: Prompt, parseSpecial: boolean): Int32Array {
    this.#lifetime.assertAlive();
    if (typeof prompt === "string") return this.tokenize(prompt, { parseSpecial });
    const expected = "text or a list of token ids";
    if (!Array.isArray(prompt) && !ArrayBuffer.isView(prompt)) refuseValue(where, "prompt", expected, prompt);
    if (Array.isArray(prompt) && prompt.some((item) => typeof item === "object" && item !== null))
      refuseValue(where, "prompt", expected, "a list of objects");
    checkTokens(prompt, this.vocabularySize);
    return Int32Array.from(prompt);
  }
}

function tooLong(tokens: number, contextTokens: number, rest: string): ContextError {
  return new ContextError(
    "CONTEXT_OVERFLOW",
    `[context] there are ${tokens} tokens and the context holds ${contextTokens}${rest} or open the model with a larger context (${optionText("contextTokens")})`,
    { details: { tokens, contextTokens } },
  );
}
