// Deltas for one reader. Deltas that a slow reader has not read are joined into one per run of a choice, so that the
// buffer holds no more than the tokens of its own request. A joined delta keeps the sizes of its parts: where text is
// split does not depend on the reader's pace.

import type { ChoiceSummary, CompletionDelta, DeltaPart, TokenLogprob } from "./serving.js";

interface GrowingDelta extends CompletionDelta {
  text: string;
  readonly tokens: number[];
  readonly logprobs: TokenLogprob[];
  parts?: DeltaPart[];
  atMs: number;
  finished?: ChoiceSummary;
}

interface Reader {
  readonly resolve: (result: IteratorResult<CompletionDelta, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

/** The buffer between the engine and the reader of one completion. */
export class DeltaStream {
  readonly #deltas: GrowingDelta[] = [];
  readonly #readers: Reader[] = [];
  #ended = false;
  #failure: { readonly error: unknown } | undefined;

  push(
    choice: number,
    text: string,
    tokens: readonly number[],
    logprobs: readonly TokenLogprob[],
    finished?: ChoiceSummary,
  ): void {
    if (this.#ended) return;
    const atMs = performance.now();
    const last = this.#deltas[this.#deltas.length - 1];
    if (last?.choice === choice) {
      last.parts ??= [{ characters: last.text.length, tokens: last.tokens.length }];
      last.parts.push({ characters: text.length, tokens: tokens.length });
      last.text += text;
      last.tokens.push(...tokens);
      last.logprobs.push(...logprobs);
      if (tokens.length > 0) last.atMs = atMs;
      if (finished !== undefined) last.finished = finished;
      return;
    }
    const delta: GrowingDelta = {
      choice,
      text,
      tokens: [...tokens],
      logprobs: [...logprobs],
      atMs,
      ...(finished === undefined ? {} : { finished }),
    };
    const reader = this.#readers.shift();
    if (reader === undefined) this.#deltas.push(delta);
    else reader.resolve({ done: false, value: delta });
  }

  end(): void {
    this.#ended = true;
    for (const reader of this.#readers.splice(0)) reader.resolve(DONE);
  }

  /** Rejects the next read, after the deltas that are already buffered. */
  fail(error: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    const [first, ...others] = this.#readers.splice(0);
    if (first === undefined) this.#failure = { error };
    else first.reject(error);
    for (const reader of others) reader.resolve(DONE);
  }

  next(): Promise<IteratorResult<CompletionDelta, undefined>> {
    const delta = this.#deltas.shift();
    if (delta !== undefined) return Promise.resolve({ done: false, value: delta });
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) return Promise.reject(failure.error);
    if (this.#ended) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }
}
