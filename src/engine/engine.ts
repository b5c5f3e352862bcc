// The engine of a model: completes, embeds and scores many texts at once, in shared steps over one paged KV cache. It
// uses a plan and owns neither the plan nor the model's file.

import type { ChatTemplates } from "../chat/template/chat-templates.js";
import type { HeaderBytes } from "../gguf/header-bytes.js";
import { kvGroups } from "../graph/cache-groups.js";
import { Lifetime } from "../lifetime.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";
import type { PlanResidency } from "../plan/residency.js";
import { withRecommended } from "../sampler/recommended-sampling.js";
import { largestSequence } from "../scheduler/block-demand.js";
import { schedulerLimits } from "../scheduler/limits.js";
import { Speculation } from "../speculation/speculation.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { CompletionJob, type TokenCounts } from "./completion-job.js";
import { checkPrompt, type RequestLimits, resolveRequest, type ResolvedRequest } from "./completion-request.js";
import { DEFAULT_DRY_BREAKERS, resolveDryBreakers } from "./dry-breakers.js";
import { type DraftingOptions, speculationOf } from "./drafting.js";
import { EmbeddingSink } from "./embedding.js";
import { FailedCompletion } from "./failed-completion.js";
import { KvStore } from "./kv-store.js";
import { cacheLimitTokens, fittingBlocks, fixedCacheTokens, stateSlotsFor } from "./kv-store-size.js";
import type { ModelSampling } from "./model-sampling.js";
import { NO_VOCABULARY } from "./no-vocabulary.js";
import { refuseTooLarge } from "./plan-fit.js";
import { RowJob, type RowJobOptions, type RowSink } from "./row-job.js";
import type { CompletionRequest, EngineStatistics, ModelEngine, WholeCompletion } from "./serving.js";
import { EngineLoop } from "./engine-loop.js";
import {
  DEFAULT_SEQUENCES,
  type ResolvedServingOptions,
  resolveServingOptions,
  type ServingOptions,
} from "./serving-options.js";
import type { WarmUp, WarmUpOptions } from "./warm-up.js";

/** Minimum size of a cache that grows: otherwise slightly longer prompts would replace it every time. */
const LEAST_GROWN_TOKENS = 1024;
const IDLE_LOOK_MS = 5;
/** Assumed running time of a request before one has ended. */
const FIRST_GUESS_MS = 2000;
const SHORTEST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 60_000;
/** Weight of the latest request in the mean. */
const WEIGHT = 0.1;

/** What an engine is made of. */
export interface EngineParts {
  /** The model's name in requests and logs. */
  readonly name: string;
  readonly plan: ExecutionPlan;
  /** False for a file without a vocabulary: tokens can be completed, but there is no text. */
  readonly hasVocabulary: boolean;
  /** Throws if the file has no vocabulary. */
  readonly tokenizer: () => Tokenizer;
  readonly chatTemplates: () => ChatTemplates;
  readonly readHeader: () => Promise<HeaderBytes>;
  readonly sampling: ModelSampling;
  /** Whether the KV cache grows on demand; false allocates all of it before the first request. */
  readonly growsKvCache: boolean;
  /** Drafters: by default those of "auto". Tests pass their own. */
  readonly drafting?: DraftingOptions | Speculation;
}

/** Serves the requests of one model; `completion/`, `model/` and `server/` use it through `ModelEngine`. */
export class Engine implements ModelEngine, AsyncDisposable {
  readonly name: string;
  readonly contextTokens: number;
  readonly vocabularySize: number;
  readonly #parts: EngineParts;
  readonly #store: KvStore;
  readonly #stateSlotBytes: number;
  readonly #loop: EngineLoop;
  readonly #speculation: Speculation | undefined;
  readonly #limits: RequestLimits;
  readonly #constraintTimeoutMs: number;
  readonly #suppressedTokens: Int32Array;
  readonly #counts: TokenCounts = { promptTokens: 0, cachedTokens: 0, generatedTokens: 0 };
  readonly #lifetime = new Lifetime("the model");
  readonly #turnover: Turnover;
  readonly #ending = new AbortController();
  #chatTemplates: ChatTemplates | undefined;
  #warmUp: WarmUp | undefined;
  #warming: Promise<void> | undefined;
  #dryBreakers: readonly (readonly number[])[] | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: EngineParts, options: ServingOptions = {}) {
    const resolved = resolveServingOptions(options);
    const { plan, name } = parts;
    const { backend, config, program } = plan;
    this.#parts = parts;
    this.name = name;
    this.vocabularySize = program.vocabularySize;
    this.#constraintTimeoutMs = resolved.constraintTimeoutMs;
    // The output matrix may have fewer rows than the vocabulary has tokens.
    this.#suppressedTokens = parts.sampling.suppressedTokens.filter((token) => token < program.vocabularySize);
    // A plan's steps hold no more than its context.
    const maxStepTokens = Math.min(backend.maxStepTokens, config.contextTokens);
    const maxStepOutputs = Math.min(backend.maxStepOutputs, config.contextTokens);
    const { usualSequences = DEFAULT_SEQUENCES } = backend;
    const limits = schedulerLimits(
      { maxStepTokens, maxStepOutputs, chunkTokens: backend.chunkTokens ?? maxStepTokens },
      { sequences: resolved.maxSequences ?? usualSequences, queued: resolved.maxQueued },
    );
    this.#stateSlotBytes = plan.memory().stateBytes;
    this.#store = openStore(parts, limits.sequences, resolved);
    // A cache that is smaller than the model's context and cannot grow is the context here.
    this.contextTokens = parts.growsKvCache
      ? config.contextTokens
      : Math.min(config.contextTokens, largestSequence(this.#store.pools));
    const { contextTokens, vocabularySize } = this;
    this.#limits = { vocabularySize, contextTokens, sequences: limits.sequences };
    this.#turnover = new Turnover(limits.sequences);
    const { drafting = {} } = parts;
    this.#speculation = drafting instanceof Speculation ? drafting : speculationOf(plan, this.#store, drafting);
    const retryAfterMs = (): number => this.#turnover.retryAfterMs(this.#loop.statistics().queued);
    this.#loop = new EngineLoop(plan, this.#store, limits, retryAfterMs, this.#speculation);
  }

  get backend(): string {
    return this.#parts.plan.backend.description.name;
  }

  get tokenizer(): Tokenizer {
    return this.#parts.tokenizer();
  }

  get chatTemplates(): ChatTemplates {
    this.#chatTemplates ??= this.#parts.chatTemplates();
    return this.#chatTemplates;
  }

  get keepsCheckpoints(): boolean {
    return this.#store.pools.checkpoints !== undefined;
  }

  /**
   * Whether nothing can be computed any more, because the device was lost or the file is damaged. Only loading the
   * model again helps.
   */
  get isLost(): boolean {
    return this.#loop.failure !== undefined;
  }

  complete(request: CompletionRequest): WholeCompletion {
    try {
      this.#lifetime.assertAlive();
      const resolved = this.#withDefaults(resolveRequest(request, this.#limits));
      this.#refuseTooLarge(resolved.prompt.length + resolved.maxTokens);
      const job = new CompletionJob(resolved, {
        host: this.#loop,
        tokenizer: this.#parts.hasVocabulary ? this.tokenizer : NO_VOCABULARY,
        vocabularySize: this.vocabularySize,
        suppressedTokens: this.#suppressedTokens,
        constraintTimeoutMs: this.#constraintTimeoutMs,
        counts: this.#counts,
        ended: (runningMs) => this.#turnover.note(runningMs),
      });
      job.begin();
      return job;
    } catch (error) {
      // The request owns its constraint, and the caller cannot know that the request ends here.
      request?.constraint?.[Symbol.dispose]();
      return new FailedCompletion(error);
    }
  }

  /** The mean of the last layer's states over all tokens, scaled to length 1. */
  async embed(tokens: Int32Array, signal?: AbortSignal): Promise<Float32Array> {
    return await this.score({ tokens, firstOutput: 0, signal }, new EmbeddingSink());
  }

  /** Computes a text and passes the output rows of its tokens from `firstOutput` on to the sink. */
  async score<Result>(options: RowJobOptions, sink: RowSink<Result>): Promise<Result> {
    this.#lifetime.assertAlive();
    checkPrompt(options.tokens, this.#limits, 0);
    this.#refuseTooLarge(options.tokens.length);
    return await new RowJob(this.#loop, options, sink).run();
  }

  readHeader(): Promise<HeaderBytes> {
    return this.#parts.readHeader();
  }

  /**
   * Compiles kernels, chooses algorithms and captures graphs for batches and prompts of all sizes, so that no request
   * waits for them; a growing cache gets its full size first. Requests that arrive meanwhile are served first. Resolves
   * when it is done or the engine is disposed; it never rejects, and a second call waits for the first.
   */
  warmUp(options: WarmUpOptions = {}): Promise<void> {
    this.#lifetime.assertAlive();
    this.#warming ??= this.#prewarm(options);
    return this.#warming;
  }

  statistics(): EngineStatistics {
    const { steps = 0, done = 0, milliseconds = 0 } = this.#warmUp?.progress ?? {};
    const loop = this.#loop.statistics();
    return {
      ...loop,
      stateBytes: loop.stateSlots * this.#stateSlotBytes,
      ...this.#counts,
      warmUpSteps: steps,
      warmUpStepsDone: done,
      warmUpMs: milliseconds,
    };
  }

  get residency(): PlanResidency {
    return this.#parts.plan.residency;
  }

  /** Fails running and queued requests, and frees the KV cache. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#lifetime.end();
    this.#ending.abort();
    await this.#warming;
    await this.#warmUp?.ended;
    await this.#loop[Symbol.asyncDispose]();
    await this.#speculation?.[Symbol.asyncDispose]();
  }

  async #prewarm(options: WarmUpOptions): Promise<void> {
    const { signal } = this.#ending;
    // Only servers warm up; a program that generates need not load the code.
    const { pauseUnlessAborted, WarmUp } = await import("./warm-up.js");
    while (this.#store.canGrow && this.#loop.isBusy && !signal.aborted) await pauseUnlessAborted(IDLE_LOOK_MS, signal);
    if (signal.aborted) return;
    const { maxBlocks, states } = this.#store.pools;
    const whole = { blocks: maxBlocks, largest: maxBlocks.map(() => 0), stateSlots: states?.maxBlocks ?? 0 };
    if (this.#store.canGrow) this.#store.replace(whole);
    this.#warmUp = new WarmUp({
      plan: this.#parts.plan,
      store: this.#store,
      vocabularySize: this.vocabularySize,
      sequences: this.#limits.sequences,
      isBusy: () => this.#loop.isBusy,
    });
    await this.#warmUp.run(signal, options);
  }

  /** The error has the figures of the memory, not those of a cache size that the caller never chose. */
  #refuseTooLarge(tokens: number): void {
    if (this.#parts.growsKvCache && tokens > largestSequence(this.#store.pools))
      refuseTooLarge(this.#parts.plan, tokens);
  }

  /** Fills in what the model's file recommends, and breakers if DRY is enabled without any. */
  #withDefaults(request: ResolvedRequest): ResolvedRequest {
    const sampling = withRecommended(this.#parts.sampling.recommended, request.sampling);
    return this.#withDryBreakers({ ...request, sampling });
  }

  /** The default breakers are resolved once per vocabulary. */
  #withDryBreakers(request: ResolvedRequest): ResolvedRequest {
    const { sampling } = request;
    const wantsBreakers = (sampling.dryMultiplier ?? 0) > 0 && sampling.dryBreakers === undefined;
    if (!wantsBreakers || !this.#parts.hasVocabulary) return request;
    this.#dryBreakers ??= resolveDryBreakers(DEFAULT_DRY_BREAKERS, this.tokenizer);
    return { ...request, sampling: { ...sampling, dryBreakers: this.#dryBreakers } };
  }
}

/** Throws BACKEND_MEMORY if the cache does not fit. */
function openStore(
  { plan, growsKvCache }: EngineParts,
  sequences: number,
  { kvCacheTokens, sharesPrefixes, stateCacheSlots: checkpoints }: ResolvedServingOptions,
): KvStore {
  const { blockTokens, contextTokens } = plan.config;
  const limit = growsKvCache ? cacheLimitTokens(plan, sequences) : fixedCacheTokens(plan, sequences, kvCacheTokens);
  const maxBlocks = growsKvCache ? plan.kvCacheBlocks(limit, sequences) : fittingBlocks(plan, limit, sequences);
  const maxSlots = stateSlotsFor(plan, { tokens: limit, sequences, checkpoints });
  return new KvStore({
    ...(maxSlots === undefined ? {} : { states: { slots: growsKvCache ? 0 : maxSlots, maxSlots } }),
    groups: kvGroups(plan.program.kv).map(({ window, chunk }, group) => ({
      ...(window === undefined ? {} : { window }),
      ...(chunk === undefined ? {} : { chunk }),
      blocks: growsKvCache ? 0 : maxBlocks[group],
      maxBlocks: maxBlocks[group],
      leastGrownBlocks: Math.ceil(Math.min(LEAST_GROWN_TOKENS, contextTokens) / blockTokens),
    })),
    blockTokens,
    sharesPrefixes,
    create: (blocks, stateSlots) => plan.createGroupedKvCache(blocks, stateSlots),
  });
}

/**
 * Computes one token, which loads the weights and compiles kernels: no request waits for them, and a model that does
 * not fit fails while another can still be unloaded for it. Calls `onStart` with the engine before that. Disposes
 * `owner` if it fails.
 */
export async function computeFirstToken<Owner extends AsyncDisposable & { readonly engine: ModelEngine }>(
  owner: Owner,
  onStart: (engine: ModelEngine) => void = () => {},
): Promise<Owner> {
  try {
    const { engine } = owner;
    onStart(engine);
    await engine.complete({ prompt: Int32Array.of(engine.tokenizer.bosToken ?? 0), maxTokens: 1 }).summary;
    return owner;
  } catch (error) {
    await owner[Symbol.asyncDispose]();
    throw error;
  }
}

/** The mean running time of requests, from which queued ones estimate their wait. */
class Turnover {
  readonly #sequences: number;
  #meanMs = FIRST_GUESS_MS;

  constructor(sequences: number) {
    this.#sequences = sequences;
  }

  note(runningMs: number): void {
    this.#meanMs += (runningMs - this.#meanMs) * WEIGHT;
  }

  retryAfterMs(queued: number): number {
    return Math.min(LONGEST_RETRY_MS, Math.max(SHORTEST_RETRY_MS, (this.#meanMs * queued) / this.#sequences / 2));
  }
}
