// Perplexity over windows of a text, counted as llama.cpp counts it: each window is run on its own, the first token is
// replaced by BOS where the model adds one, and only the second half is scored, so that every scored token has context.

import { ContextError } from "../errors.js";
import { type EngineResources, Sequence } from "./sequence.js";

export interface PerplexityRequest extends EngineResources {
  readonly tokens: Int32Array;
  readonly windowTokens: number;
  /** Takes the place of each window's first token. */
  readonly bosToken: number | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface PerplexityProgress {
  readonly window: number;
  readonly windows: number;
  readonly windowTokens: number;
  /** Of the whole text, scored or not. */
  readonly tokens: number;
  readonly scoredTokens: number;
  /** Mean of the negative log-likelihood so far, and its exponential. */
  readonly meanNll: number;
  readonly perplexity: number;
}

/** Yields after every window; the last one is the result. */
export async function* measurePerplexity(
  request: PerplexityRequest,
): AsyncGenerator<PerplexityProgress, void, undefined> {
  const { tokens, windowTokens, bosToken, signal } = request;
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
    signal?.throwIfAborted();
    const window = tokens.slice(index * windowTokens, (index + 1) * windowTokens);
    if (bosToken !== undefined) window[0] = bosToken;
    const scored = await windowNll(request, window, signal);
    nll += scored.nll;
    scoredTokens += scored.count;
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

async function windowNll(
  resources: EngineResources,
  window: Int32Array,
  signal: AbortSignal | undefined,
): Promise<{ readonly nll: number; readonly count: number }> {
  using sequence = new Sequence(resources, window.length);
  const first = Math.floor(window.length / 2);
  let position = first;
  let nll = 0;
  const wanted = (index: number): { want: { kind: "logits" } } | undefined =>
    index >= first && index < window.length - 1 ? { want: { kind: "logits" } } : undefined;
  for await (const row of sequence.feed(window, wanted, signal)) {
    if (row.kind === "logits") nll += row.logSum - row.logits[window[position + 1]];
    position++;
  }
  return { nll, count: position - first };
}
