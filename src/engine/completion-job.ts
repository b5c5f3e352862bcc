// One completion in the engine: its choices, its time limit, its reader and its summary. However it ends (finished,
// stopped, cancelled, timed out, failed), its blocks are freed and its summary settles.

import type { OutputRow } from "../backends/contract.js";
import { Sampler } from "../sampler/sampler.js";
import { onAbort } from "./abort-listeners.js";
import { Choice, type ChoiceOwner } from "./choice.js";
import type { ResolvedRequest } from "./completion-request.js";
import { deferred } from "./deferred.js";
import type { TokenTexts } from "./no-vocabulary.js";
import { NextTokens } from "./next-tokens.js";
import { DeltaStream } from "./delta-stream.js";
import type { CompletionDelta, CompletionSummary, ChoiceFinishReason, WholeCompletion } from "./serving.js";
import type { SequenceHost } from "./step-reader.js";

/** Tokens of all requests of an engine. */
export interface TokenCounts {
  promptTokens: number;
  cachedTokens: number;
  generatedTokens: number;
}

interface JobContext {
  readonly host: SequenceHost;
  readonly tokenizer: TokenTexts;
  readonly vocabularySize: number;
  /** Tokens that are never chosen, ascending; none by default. */
  readonly suppressedTokens?: Int32Array;
  readonly constraintTimeoutMs: number;
  readonly counts: TokenCounts;
  /** Called once when a request that ran has ended, with its running time. */
  readonly ended: (runningMs: number) => void;
}

const SEEDS = 2 ** 53;

/** A request that the engine has accepted, with its choices. */
export class CompletionJob implements WholeCompletion, ChoiceOwner {
  readonly request: ResolvedRequest;
  readonly stream = new DeltaStream();
  readonly summary: Promise<CompletionSummary>;
  readonly #context: JobContext;
  readonly #choices: readonly Choice[];
  readonly #seed: number;
  readonly #settle: {
    readonly resolve: (summary: CompletionSummary) => void;
    readonly reject: (error: unknown) => void;
  };
  readonly #submittedMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #forgetSignal: (() => void) | undefined;
  #launchedMs: number | undefined;
  #firstTokenMs: number | undefined;
  #lastTokenMs = 0;
  #draftedTokens = 0;
  #acceptedTokens = 0;
  /** The first choice was cancelled during prefill, which it computes for all: it ends after that. */
  #cancelsFirst = false;
  #isIterated = false;
  #isEnded = false;

  /** Throws if the request is invalid; nothing has been started then. */
  constructor(request: ResolvedRequest, context: JobContext) {
    this.request = request;
    this.#context = context;
    const { vocabularySize, suppressedTokens, constraintTimeoutMs: timeoutMs, host, tokenizer } = context;
    const first = new Sampler(request.sampling, {
      vocabularySize,
      ...(suppressedTokens === undefined ? {} : { suppressedTokens }),
    });
    this.#seed = first.seed;
    for (const token of request.prompt) first.accept(token);
    this.#choices = Array.from({ length: request.choices }, (_, index) => {
      const sampler = index === 0 ? first : first.withSeed(laterSeed(first.seed, index));
      const nextTokens =
        index > 0 || request.constraint === undefined
          ? undefined
          : new NextTokens(request.constraint, { vocabularySize, timeoutMs, barrier: host.masks });
      return new Choice(this, { index, sampler, nextTokens, tokenizer, vocabularySize, host });
    });
    const { promise, ...settle } = deferred<CompletionSummary>();
    // A reader that iterates gets the failure there; a summary that is not awaited must not end the process.
    promise.catch(() => {});
    this.summary = promise;
    this.#settle = settle;
  }

  /** Enters the queue. Does not throw: a failure reaches the reader. */
  begin(): void {
    const { prompt, maxTokens, priority, choices, checkpoints, timeLimitMs, signal } = this.request;
    const [first] = this.#choices;
    try {
      if (signal?.aborted === true) {
        this.#finish("abort");
        return;
      }
      const options = {
        tokens: prompt,
        capacityTokens: prompt.length + maxTokens,
        priority,
        slots: choices,
        checkpoints,
      };
      first.begin(this.#context.host.submit(options, first));
    } catch (error) {
      this.fail(error);
      return;
    }
    if (signal !== undefined) this.#forgetSignal = onAbort(signal, () => this.#finish("abort"));
    if (timeLimitMs !== undefined) this.#timer = setTimeout(() => this.#finish("timeout"), timeLimitMs);
  }

  get cachedTokens(): number | undefined {
    return this.#firstTokenMs === undefined ? undefined : this.#cachedTokens;
  }

  text(choice = 0): string {
    return this.#choices[choice].text;
  }

  cancel(choice?: number): void {
    if (choice === 0 && (this.#choices[0].sequence?.slots ?? 0) > 1) this.#cancelsFirst = true;
    else this.#finish("abort", choice === undefined ? this.#choices : this.#choices.slice(choice, choice + 1));
  }

  [Symbol.asyncIterator](): AsyncIterator<CompletionDelta, undefined> {
    if (this.#isIterated) throw new TypeError("a completion can be iterated only once");
    this.#isIterated = true;
    return {
      next: () => this.stream.next(),
      return: () => {
        this.cancel();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  launched(atMs: number): void {
    this.#launchedMs ??= atMs;
  }

  branch(row: OutputRow, atMs: number): void {
    const [first, ...others] = this.#choices;
    for (const choice of others) choice.branch(first, row, atMs);
    if (this.#cancelsFirst) first.finish("abort");
  }

  sampled(atMs: number): void {
    const { counts } = this.#context;
    if (this.#firstTokenMs === undefined) {
      this.#firstTokenMs = atMs;
      counts.promptTokens += this.request.prompt.length;
      counts.cachedTokens += this.#cachedTokens;
    }
  }

  extended(atMs: number): void {
    this.#lastTokenMs = atMs;
    this.#context.counts.generatedTokens++;
  }

  verified(draftedTokens: number, acceptedTokens: number): void {
    this.#draftedTokens += draftedTokens;
    this.#acceptedTokens += acceptedTokens;
    this.#context.host.speculation?.verified(draftedTokens, acceptedTokens);
  }

  finished(): void {
    const [first, ...others] = this.#choices;
    // No choice is left that needs the prompt.
    if (this.#cancelsFirst && !first.isFinished && others.every(({ isFinished }) => isFinished))
      return first.finish("abort");
    if (this.#isEnded || !this.#choices.every(({ isFinished }) => isFinished)) return;
    const summary = this.#summarise();
    this.#end();
    this.stream.end();
    this.#settle.resolve(summary);
  }

  fail(error: unknown): void {
    if (this.#isEnded) return;
    this.#end();
    for (const choice of this.#choices) choice.abandon();
    this.stream.fail(error);
    this.#settle.reject(error);
  }

  /** Called by timers and signals, which cannot handle an exception. */
  #finish(reason: ChoiceFinishReason, choices: readonly Choice[] = this.#choices): void {
    if (this.#isEnded) return;
    try {
      for (const choice of choices) choice.finish(reason);
    } catch (error) {
      this.fail(error);
    }
  }

  get #cachedTokens(): number {
    return this.#choices[0].sequence?.cachedTokens ?? 0;
  }

  #end(): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
    this.#forgetSignal?.();
    if (this.#launchedMs !== undefined) this.#context.ended(performance.now() - this.#launchedMs);
  }

  #summarise(): CompletionSummary {
    const choices = this.#choices.map((choice) => choice.summary());
    const generatedTokens = choices.reduce((total, choice) => total + choice.generatedTokens, 0);
    const launchedMs = this.#launchedMs ?? performance.now();
    const firstTokenMs = this.#firstTokenMs ?? performance.now();
    const decodeMs = this.#lastTokenMs - firstTokenMs;
    // The first token of each choice is counted as prompt time.
    const decodedTokens = choices.reduce((total, choice) => total + Math.max(0, choice.generatedTokens - 1), 0);
    return {
      choices,
      promptTokens: this.request.prompt.length,
      cachedTokens: this.#cachedTokens,
      generatedTokens,
      seed: this.#seed,
      queuedMs: launchedMs - this.#submittedMs,
      promptMs: Math.max(0, firstTokenMs - launchedMs),
      timeToFirstTokenMs: firstTokenMs - this.#submittedMs,
      tokensPerSecond: decodeMs > 0 ? (decodedTokens * 1000) / decodeMs : 0,
      preemptions: this.#choices.reduce((total, { sequence }) => total + (sequence?.preemptions ?? 0), 0),
      draftedTokens: this.#draftedTokens,
      acceptedTokens: this.#acceptedTokens,
    };
  }
}

/** Wraps around at the largest integer that is exact. */
function laterSeed(seed: number, index: number): number {
  return seed < SEEDS - index ? seed + index : seed - (SEEDS - index);
}
