// Text that a model generates, as its reader sees it: deltas to iterate, a result to await, or both. Invariants:
// nothing is computed before the first delta or the result is requested; leaving the iteration early cancels the rest
// and frees it; the result settles however the generation ends.

import type { CompletionSummary, TokenLogprob, WholeCompletion } from "../engine/serving.js";

/**
 * Why text ended: "stop" at an end-of-sequence token or a stop string, "length" at `maxTokens` or the end of the
 * context, "tool-calls" if the reply calls tools, "abort" by a signal or by leaving the iteration, "timeout" by
 * `timeoutMs`, "error" if it failed.
 */
export type FinishReason = "stop" | "length" | "tool-calls" | "abort" | "timeout" | "error";

/** Text that was generated since the previous delta. */
export interface GenerationDelta {
  /** May be empty while a character or a possible stop string is incomplete. */
  readonly text: string;
  /** The tokens of the text; several if the reader was slower than the model. */
  readonly tokens: readonly number[];
  /** One for each token, if `topLogprobs` was given. */
  readonly logprobs?: readonly TokenLogprob[];
}

/** Token counts of a generation. */
export interface Usage {
  readonly promptTokens: number;
  /** Prompt tokens whose keys and values were already in the KV cache. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Generated tokens that were reasoning; 0 if the model did not reason. */
  readonly reasoningTokens: number;
}

/** Times of the phases of a generation. */
export interface GenerationTimings {
  /** From the start until the first step with a part of the prompt. */
  readonly queuedMs: number;
  /** From that step until the first token. */
  readonly promptMs: number;
  /** From the first token to the last. */
  readonly generateMs: number;
  /** From the start to the first token. */
  readonly timeToFirstTokenMs: number;
  /** Prefill speed over the prompt tokens that were not cached. */
  readonly promptTokensPerSecond: number;
  /** Decode speed over the tokens after the first. */
  readonly tokensPerSecond: number;
  /** Prompt tokens that were taken from the prefix cache. */
  readonly reusedTokens: number;
  /** Prompt tokens that were computed. */
  readonly computedTokens: number;
  /** Draft tokens that were verified, and how many of them were accepted; 0 without speculative decoding. */
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
}

/** The complete result of a generation. */
export interface GenerationResult {
  readonly text: string;
  readonly finishReason: FinishReason;
  /** The stop string that ended it, if one did. */
  readonly stop?: string;
  readonly usage: Usage;
  readonly timings: GenerationTimings;
  /** The same seed, prompt and options generate the same text again. */
  readonly seed: number;
}

/** Starts a completion; one that is already cancelled ends without computing anything. Part of the internals. */
export type StartCompletion = (isCancelled: boolean) => WholeCompletion;

/** A running generation: iterate its deltas, await its result, or do both. */
export class Generation implements AsyncIterable<GenerationDelta>, PromiseLike<GenerationResult> {
  readonly #start: StartCompletion;
  #completion: WholeCompletion | undefined;
  #result: Promise<GenerationResult> | undefined;
  #isIterated = false;

  constructor(start: StartCompletion) {
    this.#start = start;
  }

  /**
   * The whole text and how it ended; reading this property starts the generation, and reading it again returns the same
   * promise. Rejects if the generation fails.
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

  /** Iterates over the deltas; possible once. */
  [Symbol.asyncIterator](): AsyncIterator<GenerationDelta, undefined> & {
    return(): Promise<IteratorReturnResult<undefined>>;
  } {
    if (this.#isIterated)
      throw new TypeError("a generation can be iterated only once; `await generation.result` has its text");
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

/** The last delta of a completion may only mark its end. */
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
  // A reader that iterates gets the failure there; a result that is not awaited must not end the process.
  result.catch(() => {});
  return result;
}

/** The times of a completion in the form of results. */
export function timingsOf(summary: CompletionSummary): GenerationTimings {
  const { promptTokens, cachedTokens, generatedTokens } = summary;
  const { queuedMs, promptMs, timeToFirstTokenMs, tokensPerSecond, draftedTokens, acceptedTokens } = summary;
  return {
    queuedMs,
    promptMs,
    generateMs: tokensPerSecond > 0 ? ((generatedTokens - 1) * 1000) / tokensPerSecond : 0,
    timeToFirstTokenMs,
    promptTokensPerSecond: promptMs > 0 ? ((promptTokens - cachedTokens) * 1000) / promptMs : 0,
    reusedTokens: cachedTokens,
    computedTokens: promptTokens - cachedTokens,
    tokensPerSecond,
    draftedTokens,
    acceptedTokens,
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
