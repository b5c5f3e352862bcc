// One completion on the engine with the limits of its request, as deltas and a summary.
// Invariants: no more tokens are requested than the context has room for; limits on a response are shared by all of its
// prompts and choices; the signal reaches the engine; leaving the iteration cancels the completion.

import { ServingError } from "../errors.js";
import type { SamplerOptions } from "../sampler/options.js";
import type { CompletionDelta, CompletionModel, CompletionSummary, TokenConstraint } from "./completion-model.js";
import type { CompletionLimits } from "./limits.js";

const STOPPING_RETRY_AFTER_MS = 5000;

/** How tokens are generated after a prompt. */
export interface CompletionSettings {
  /** Maximum number of tokens to generate; by default as many as the context has room for. */
  readonly maxTokens?: number | undefined;
  readonly sampling?: Partial<SamplerOptions> | undefined;
  /** Strings that end a choice and are not part of it. */
  readonly stop?: readonly string[] | undefined;
  /** Replies to generate for the prompt; 1 by default. */
  readonly choices?: number | undefined;
  /** Alternatives whose log-probabilities are given with each token's; undefined gives no log-probabilities. */
  readonly topLogprobs?: number | undefined;
  readonly ignoreEndOfGeneration?: boolean | undefined;
}

/** One prompt to complete. */
interface CompletionTask extends CompletionSettings {
  readonly prompt: Int32Array;
  /** How many prompts the response has, this one included. */
  readonly prompts: number;
  /** When generation ends at the latest, by performance.now(). */
  readonly deadlineMs: number;
  /** Remains the caller's to dispose. */
  readonly constraint: TokenConstraint | undefined;
  /** Control tokens whose text is part of the output. */
  readonly printedTokens?: ReadonlySet<number>;
  /** Numbers of leading prompt tokens after which later prompts are expected to differ; none by default. */
  readonly checkpoints?: readonly number[];
  readonly signal: AbortSignal | undefined;
}

/** Counts what completions do, for metrics. */
interface CompletionObserver {
  /** Called once a completion has ended, whether or not its summary is awaited. */
  countCompletion(model: string, summary: CompletionSummary): void;
  /** Called with the time between two tokens of a choice, as the engine generated them. */
  countTokenGap(model: string, milliseconds: number): void;
}

/** What all completions of one server or library share. */
export interface CompletionContext {
  readonly limits: CompletionLimits;
  readonly observer?: CompletionObserver | undefined;
}

/** A completion that has been started. Iterate it once, then await its summary. */
export class CompletionRun implements AsyncIterable<CompletionDelta> {
  readonly #completion: ReturnType<CompletionModel["complete"]>;
  readonly #signal: AbortSignal | undefined;
  readonly #gaps: TokenGaps;
  /** Choices that were cancelled here. */
  readonly #cancelled = new Set<number>();

  constructor(model: CompletionModel, task: CompletionTask, { limits, observer }: CompletionContext) {
    const { prompt, constraint, printedTokens, checkpoints = [], signal, topLogprobs, choices = 1 } = task;
    this.#signal = signal;
    this.#completion = model.complete({
      prompt,
      maxTokens: Math.min(task.maxTokens ?? Infinity, model.contextTokens - prompt.length, maxTokens(limits, task)),
      sampling: task.sampling ?? {},
      stop: task.stop ?? [],
      choices,
      ...(topLogprobs === undefined ? {} : { topLogprobs }),
      ...(constraint === undefined ? {} : { constraint }),
      ...(printedTokens === undefined ? {} : { printedTokens }),
      ...(checkpoints.length === 0 ? {} : { checkpoints }),
      ignoreEndOfGeneration: task.ignoreEndOfGeneration ?? false,
      ...(task.deadlineMs === Infinity
        ? {}
        : { timeLimitMs: Math.max(1, Math.floor(task.deadlineMs - performance.now())) }),
      ...(signal === undefined ? {} : { signal }),
    });
    // Counted even if the summary is not awaited; a failure reaches the caller through the iteration.
    this.#completion.summary.then(
      (summary) => observer?.countCompletion(model.name, summary),
      () => {},
    );
    this.#gaps = new TokenGaps((milliseconds) => observer?.countTokenGap(model.name, milliseconds));
  }

  /** Prompt tokens taken from the prefix cache; undefined until the first token has been generated. */
  get cachedTokens(): number | undefined {
    return this.#completion.cachedTokens;
  }

  /** The engine's summary, however the completion ended. */
  get ended(): Promise<CompletionSummary> {
    return this.#completion.summary;
  }

  /** Ends one choice, of which no more deltas follow. */
  cancel(choice: number): void {
    this.#cancelled.add(choice);
    this.#completion.cancel(choice);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<CompletionDelta, void, undefined> {
    for await (const delta of this.#completion) {
      this.#signal?.throwIfAborted();
      this.#gaps.tick(delta);
      if (!this.#cancelled.has(delta.choice)) yield delta;
    }
    this.#signal?.throwIfAborted();
  }

  /** Rejects with SERVING_STOPPING if the engine was shut down before the completion had ended. */
  async summary(): Promise<CompletionSummary> {
    const summary = await this.#completion.summary;
    if (summary.choices.some(({ reason }, choice) => reason === "abort" && !this.#cancelled.has(choice)))
      throw new ServingError(
        "SERVING_STOPPING",
        "[engine] the model is being unloaded, and the completion was cancelled",
        {
          details: { retryAfterMs: STOPPING_RETRY_AFTER_MS },
        },
      );
    return summary;
  }
}

function maxTokens(
  { outputTokens, logprobEntries }: CompletionLimits,
  { topLogprobs, choices = 1, prompts }: CompletionTask,
): number {
  if (topLogprobs === undefined) return outputTokens;
  return Math.max(1, Math.min(outputTokens, Math.floor(logprobEntries / (prompts * choices * (1 + topLogprobs)))));
}

/** The time from a choice's token to its next one as the engine generated them: a slow reader gets several in one delta. */
class TokenGaps {
  readonly #last: number[] = [];
  readonly #report: (milliseconds: number) => void;

  constructor(report: (milliseconds: number) => void) {
    this.#report = report;
  }

  tick({ choice, tokens, atMs }: CompletionDelta): void {
    if (tokens.length === 0) return;
    const last = this.#last[choice];
    this.#last[choice] = atMs;
    if (last === undefined) return;
    for (let count = 0; count < tokens.length; count++) this.#report((atMs - last) / tokens.length);
  }
}
