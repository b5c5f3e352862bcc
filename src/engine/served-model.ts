// One model that serves many: a loop over one paged cache, sized from the memory there is. It owns the model it is given.

import type { ChatTemplates } from "../chat/template/chat-templates.js";
import type { HeaderBytes } from "../gguf/header-bytes.js";
import { BlockPool } from "../kv-cache/block-pool.js";
import { Lifetime } from "../lifetime.js";
import { schedulerLimits } from "../scheduler/limits.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { CompletionJob, type TokenCounts } from "./completion-job.js";
import { checkPrompt, type RequestLimits, resolveRequest, type ResolvedRequest } from "./completion-request.js";
import { DEFAULT_DRY_BREAKERS, resolveDryBreakers } from "./dry-breakers.js";
import { EmbeddingJob } from "./embedding-job.js";
import { FailedCompletion } from "./failed-completion.js";
import type { Model } from "./model.js";
import type { Completion, CompletionRequest, EngineStatistics, ServedModel } from "./serving.js";
import { servingCacheTokens } from "./serving-cache.js";
import { ServingLoop } from "./serving-loop.js";
import { resolveServingOptions, type ServingOptions } from "./serving-options.js";
import { WarmUp, type WarmUpOptions } from "./warm-up.js";

export interface OwnedServedModel extends ServedModel, AsyncDisposable {
  /** Nothing can be computed any more: its device was lost, or its file damaged. Only loading it again helps. */
  readonly isLost: boolean;
  /**
   * Compiles kernels, chooses algorithms and captures graphs for batches and prompts of all sizes, so that no request stops
   * for them. Requests are served meanwhile, and go first. Resolves when it is done, or when the model is disposed; it
   * never rejects, and a second call waits for the first.
   */
  warmUp(options?: WarmUpOptions): Promise<void>;
}

/** Disposing it ends what runs and disposes the model; so does a failure to make it. */
export async function createServedModel(
  name: string,
  model: Model,
  options: ServingOptions = {},
): Promise<OwnedServedModel> {
  try {
    return new EngineModel(name, model, options);
  } catch (error) {
    await model[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Weights are loaded, and kernels compiled, by the first step. Done before anybody is served, it keeps nobody waiting, and
 * what does not fit shows while something can be unloaded for it. Disposes the model where it fails.
 */
export async function warmedUp(model: OwnedServedModel): Promise<OwnedServedModel> {
  try {
    await model.complete({ prompt: Int32Array.of(model.tokenizer.bosToken ?? 0), maxTokens: 1 }).summary;
    return model;
  } catch (error) {
    await model[Symbol.asyncDispose]();
    throw error;
  }
}

class EngineModel implements OwnedServedModel {
  readonly name: string;
  readonly tokenizer: Tokenizer;
  readonly contextTokens: number;
  readonly vocabularySize: number;
  readonly chatTemplates: ChatTemplates;
  readonly #model: Model;
  readonly #loop: ServingLoop;
  readonly #limits: RequestLimits;
  readonly #constraintTimeoutMs: number;
  readonly #counts: TokenCounts = { promptTokens: 0, cachedTokens: 0, generatedTokens: 0 };
  readonly #lifetime = new Lifetime("the served model");
  readonly #turnover: Turnover;
  readonly #warmUp: WarmUp;
  readonly #ending = new AbortController();
  #warming: Promise<void> | undefined;
  #dryBreakers: readonly (readonly number[])[] | undefined;
  #closing: Promise<void> | undefined;

  constructor(name: string, model: Model, options: ServingOptions) {
    const { maxSequences, maxQueued, kvCacheTokens, sharesPrefixes, constraintTimeoutMs } =
      resolveServingOptions(options);
    const { plan } = model;
    const { backend, config } = plan;
    this.name = name;
    this.#model = model;
    this.tokenizer = model.tokenizer;
    this.vocabularySize = model.vocabularySize;
    this.chatTemplates = model.chatTemplates;
    this.#constraintTimeoutMs = constraintTimeoutMs;
    // A plan's steps hold no more than its context.
    const maxStepTokens = Math.min(backend.maxStepTokens, config.contextTokens);
    const maxStepOutputs = Math.min(backend.maxStepOutputs, config.contextTokens);
    const limits = schedulerLimits(
      { maxStepTokens, maxStepOutputs, chunkTokens: backend.chunkTokens ?? maxStepTokens },
      { sequences: maxSequences, queued: maxQueued },
    );
    const kvCache = plan.createKvCache(servingCacheTokens(plan, limits.sequences, kvCacheTokens));
    const { blocks, blockTokens } = kvCache.options;
    const pool = new BlockPool(blocks, blockTokens, { sharesPrefixes });
    // A smaller cache than the model's context is the context here, for whoever asks and for whoever checks.
    this.contextTokens = Math.min(model.contextTokens, blocks * blockTokens);
    const { contextTokens, vocabularySize } = this;
    this.#limits = { vocabularySize, contextTokens, sequences: limits.sequences };
    this.#turnover = new Turnover(limits.sequences);
    this.#loop = new ServingLoop(plan, kvCache, pool, limits, () =>
      this.#turnover.retryAfterMs(this.#loop.statistics().queued),
    );
    this.#warmUp = new WarmUp({
      plan,
      kvCache,
      pool,
      vocabularySize,
      sequences: limits.sequences,
      isBusy: () => this.#loop.isBusy,
    });
  }

  get isLost(): boolean {
    return this.#loop.failure !== undefined;
  }

  complete(request: CompletionRequest): Completion {
    try {
      this.#lifetime.assertAlive();
      const job = new CompletionJob(this.#withDryBreakers(resolveRequest(request, this.#limits)), {
        host: this.#loop,
        tokenizer: this.tokenizer,
        vocabularySize: this.vocabularySize,
        constraintTimeoutMs: this.#constraintTimeoutMs,
        counts: this.#counts,
        ended: (runningMs) => this.#turnover.note(runningMs),
      });
      job.begin();
      return job;
    } catch (error) {
      // It is handed over with the request, and nobody else knows that it ends here.
      request?.constraint?.[Symbol.dispose]();
      return new FailedCompletion(error);
    }
  }

  async embed(tokens: Int32Array, signal?: AbortSignal): Promise<Float32Array> {
    this.#lifetime.assertAlive();
    checkPrompt(tokens, this.#limits, 0);
    return await new EmbeddingJob(this.#loop, tokens, signal).run();
  }

  readHeader(): Promise<HeaderBytes> {
    return this.#model.readHeader();
  }

  warmUp(options: WarmUpOptions = {}): Promise<void> {
    this.#lifetime.assertAlive();
    this.#warming ??= this.#warmUp.run(this.#ending.signal, options);
    return this.#warming;
  }

  statistics(): EngineStatistics {
    const { steps, done, milliseconds } = this.#warmUp.progress;
    return {
      ...this.#loop.statistics(),
      ...this.#counts,
      warmUpSteps: steps,
      warmUpStepsDone: done,
      warmUpMs: milliseconds,
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#lifetime.end();
    this.#ending.abort();
    await this.#warming;
    await this.#warmUp.ended;
    await this.#loop[Symbol.asyncDispose]();
    await this.#model[Symbol.asyncDispose]();
  }

  /** The usual ones, where DRY is asked for without any; they are found once for a vocabulary. */
  #withDryBreakers(request: ResolvedRequest): ResolvedRequest {
    const { sampling } = request;
    if (!((sampling.dryMultiplier ?? 0) > 0) || sampling.dryBreakers !== undefined) return request;
    this.#dryBreakers ??= resolveDryBreakers(DEFAULT_DRY_BREAKERS, this.tokenizer);
    return { ...request, sampling: { ...sampling, dryBreakers: this.#dryBreakers } };
  }
}

const FIRST_GUESS_MS = 2000;
const SHORTEST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 60_000;
/** How much the last request says about the next. */
const WEIGHT = 0.1;

/** How long requests run, and so when there may be room for another. */
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
