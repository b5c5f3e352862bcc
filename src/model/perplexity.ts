// Perplexity over windows of a text, computed as llama.cpp does: each window is computed separately, its first token is
// replaced by BOS if the model adds one, and only the second half is scored, so that every scored token has context.

import type { Engine } from "../engine/engine.js";
import type { RowSink } from "../engine/row-job.js";
import { ContextError } from "../errors.js";
import type { FiniteRow } from "../plan/output-row.js";
import { count, type OptionChecks, signal } from "./checked-options.js";

/** The smallest window whose second half predicts a token. */
const MIN_WINDOW_TOKENS = 3;

/** Options of `model.perplexity`. */
export interface PerplexityOptions {
  /** Tokens per window; by default the whole context. */
  readonly windowTokens?: number;
  /** Aborting rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** The checks of `model.perplexity`'s options. */
export function perplexityChecks(contextTokens: number): OptionChecks<PerplexityOptions> {
  return { windowTokens: count(MIN_WINDOW_TOKENS, contextTokens), signal };
}

interface PerplexityRequest {
  readonly engine: () => Engine;
  readonly tokens: Int32Array;
  readonly windowTokens: number;
  /** Replaces each window's first token. */
  readonly bosToken: number | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The result so far, after a window. */
export interface PerplexityProgress {
  /** Number of finished windows. */
  readonly window: number;
  readonly windows: number;
  readonly windowTokens: number;
  /** Tokens of the whole text, scored or not. */
  readonly tokens: number;
  readonly scoredTokens: number;
  /** Mean negative log-likelihood so far. */
  readonly meanNll: number;
  readonly perplexity: number;
}

/** Yields after every window; the last value is the result. */
export async function* measurePerplexity(
  request: PerplexityRequest,
): AsyncGenerator<PerplexityProgress, void, undefined> {
  const { tokens, windowTokens, bosToken, signal: ending } = request;
  const windows = Math.floor(tokens.length / windowTokens);
  if (windows === 0) {
    throw new ContextError(
      "CONTEXT_UNDERFLOW",
      `[perplexity] expected at least one window of ${windowTokens} tokens, found ${tokens.length} tokens in the text`,
      { details: { windowTokens, tokens: tokens.length } },
    );
  }
  let scoredTokens = 0;
  let nll = 0;
  for (let index = 0; index < windows; index++) {
    ending?.throwIfAborted();
    const window = tokens.slice(index * windowTokens, (index + 1) * windowTokens);
    if (bosToken !== undefined) window[0] = bosToken;
    const firstOutput = Math.floor(window.length / 2);
    // Nothing is predicted after the last token.
    const scored = { tokens: window.subarray(0, -1), firstOutput, signal: ending };
    nll += await request.engine().score(scored, new NllSink(window.subarray(firstOutput + 1)));
    scoredTokens += window.length - 1 - firstOutput;
    const meanNll = nll / scoredTokens;
    yield {
      window: index + 1,
      windows,
      windowTokens,
      tokens: tokens.length,
      scoredTokens,
      meanNll,
      perplexity: Math.exp(meanNll),
    };
  }
}

/** Sums the negative log-likelihoods of the tokens that follow each row. */
class NllSink implements RowSink<number> {
  readonly want = { want: { kind: "logits" } } as const;
  readonly #following: Int32Array;
  #rows = 0;
  #nll = 0;

  constructor(following: Int32Array) {
    this.#following = following;
  }

  add(row: FiniteRow): void {
    const token = this.#following[this.#rows++];
    if (row.kind === "logits") this.#nll += row.logSum - row.logits[token];
  }

  reset(): void {
    this.#rows = 0;
    this.#nll = 0;
  }

  finish(): number {
    return this.#nll;
  }
}
