// Text that a model generates, as its reader sees it: deltas to iterate, a result to await, or both. Invariants:
// nothing is computed before the first delta or the result is asked for; leaving the iteration early cancels what is
// left and frees it; the result settles however the generation ends.

import type { CompletionSummary, TokenLogprob, WholeCompletion } from "../engine/serving.js";

/**
 * Why text ended: "stop" at an end-of-sequence token or a stop string, "length" at `maxTokens` or the end of the
 * context, "tool-calls" when tools are to be called, "abort" by a signal or by leaving the iteration, "timeout" by
 * `timeoutMs`, "error" if it failed.
 */
export type FinishReason = "stop" | "length" | "tool-calls" | "abort" | "timeout" | "error";

/** Text that was added since the delta before. */
export interface GenerationDelta {
  /** May be empty while a character or a possible stop string is incomplete. */
  readonly text: string;
  /** The tokens behind it; several if the reader was slower than the model. */
  readonly tokens: readonly number[];
  /** One for each token, if `topLogprobs` was given. */
  readonly logprobs?: readonly TokenLogprob[];
}

/** Tokens that a generation took. */
export interface Usage {
  readonly promptTokens: number;
  /** Of the prompt, tokens whose keys and values were in the cache already. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Of the completion, tokens of reasoning; 0 for a model that is not asked to reason. */
  readonly reasoningTokens: number;
}

/** How long the parts of a generation took. */
export interface GenerationTimings {
  /** From the start until the first part of the prompt was computed. */
  readonly queuedMs: number;
  /** From then until the first token. */
  readonly promptMs: number;
  /** From the first token to the last. */
  readonly generateMs: number;
  /** From the start to the first token. */
  readonly timeToFirstTokenMs: number;
  /** Of the prompt's tokens that were not cached. */
  readonly promptTokensPerSecond: number;
  /** Of the tokens after the first. */
  readonly tokensPerSecond: number;
}

/** What a generation came to. */
export interface GenerationResult {
  readonly text: string;
  readonly finishReason: FinishReason;
  /** The stop string that ended it, if one did. */
  readonly stop?: string;
  readonly usage: Usage;
  readonly timings: GenerationTimings;
  /** The same seed, prompt and options give the same text again. */
  readonly seed: number;
}

/** Begins the completion; one that is cancelled already ends without computing anything. */
export type StartCompletion = (isCancelled: boolean) => WholeCompletion;

/** Text in the making: iterate its deltas, await its result, or do both. */
export class Generation implements AsyncIterable<GenerationDelta>, PromiseLike<GenerationResult> {
  readonly #start: StartCompletion;
  #completion: WholeCompletion | undefined;
  #result: Promise<GenerationResult> | undefined;
  #isIterated = false;

  constructor(start: StartCompletion) {
    this.#start = start;
  }

  /**
   * The whole text and how it ended; asking for it starts the generation, and asking again gives the same promise.
   * Rejects if the generation fails.
   */
  get result(): Promise<GenerationResult> {
    this.#result ??= wholeResult(this.#begin());
    return this.#result;
  }

  /** Makes `await generation` the same as `await generation.result`. */
  // oxlint-disable-next-line unicorn/no-thenable -- it is meant to be awaited
  then<Fulfilled = GenerationResult, Rejected = never>(
    fulfilled?: ((result: GenerationResult) => Fulfilled | PromiseLike<Fulfilled>) | null,
    rejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    return this.result.then(fulfilled, rejected);
  }

  /** Ends the generation with the text so far; the finish reason is "abort". */
  cancel(): void {
    this.#completion ??= this.#start(true);
    this.#completion.cancel();
  }

  /** The deltas, once: a second iteration is refused. */
  [Symbol.asyncIterator](): AsyncIterator<GenerationDelta, undefined> & {
    return(): Promise<IteratorReturnResult<undefined>>;
  } {
    if (this.#isIterated) throw new TypeError("a generation is iterated once; `await generation.result` has its text");
    this.#isIterated = true;
    let deltas: AsyncIterator<Delta, undefined> | undefined;
    return {
      next: async () => {
        deltas ??= this.#begin()[Symbol.asyncIterator]();
        return await nextDelta(deltas);
      },
      return: async () => {
        this.cancel();
        return { done: true, value: undefined };
      },
    };
  }

  #begin(): WholeCompletion {
    this.#completion ??= this.#start(false);
    return this.#completion;
  }
}

type Delta = Pick<GenerationDelta, "text" | "tokens"> & { readonly logprobs: readonly TokenLogprob[] };

/** The last delta of a completion may only say that it is the last. */
async function nextDelta(deltas: AsyncIterator<Delta, undefined>): Promise<IteratorResult<GenerationDelta, undefined>> {
  for (;;) {
    const result = await deltas.next();
    if (result.done === true) return result;
    const { text, tokens, logprobs } = result.value;
    if (text === "" && tokens.length === 0) continue;
    return { done: false, value: { text, tokens, ...(logprobs.length === 0 ? {} : { logprobs }) } };
  }
}

function wholeResult(completion: WholeCompletion): Promise<GenerationResult> {
  const result = completion.summary.then((summary) => resultOf(completion.text(), summary));
  // A reader who iterates sees the failure there; a result that is not awaited must not end the process.
  result.catch(() => {});
  return result;
}

/** The times of a completion, as results show them. */
export function timingsOf(summary: CompletionSummary): GenerationTimings {
  const { promptTokens, cachedTokens, generatedTokens } = summary;
  const { queuedMs, promptMs, timeToFirstTokenMs, tokensPerSecond } = summary;
  return {
    queuedMs,
    promptMs,
    generateMs: tokensPerSecond > 0 ? ((generatedTokens - 1) * 1000) / tokensPerSecond : 0,
    timeToFirstTokenMs,
    promptTokensPerSecond: promptMs > 0 ? ((promptTokens - cachedTokens) * 1000) / promptMs : 0,
    tokensPerSecond,
  };
}

function resultOf(text: string, summary: CompletionSummary): GenerationResult {
  const [{ reason, stop }] = summary.choices;
  const { promptTokens, cachedTokens, generatedTokens, seed } = summary;
  return {
    text,
    finishReason: reason,
    ...(stop === undefined ? {} : { stop }),
    usage: { promptTokens, cachedTokens, completionTokens: generatedTokens, reasoningTokens: 0 },
    timings: timingsOf(summary),
    seed,
  };
}
