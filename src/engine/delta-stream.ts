// Pieces on their way to one reader. Nobody waits for a slow one: what he has not read is joined into one piece for each
// run of a choice, so a buffer never holds more than the tokens of its own request. A joined piece says what it was
// joined of: where an answer is cut does not depend on the reader's pace.

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

export class DeltaStream {
  readonly #pieces: GrowingDelta[] = [];
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
    const last = this.#pieces[this.#pieces.length - 1];
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
    const piece: GrowingDelta = {
      choice,
      text,
      tokens: [...tokens],
      logprobs: [...logprobs],
      atMs,
      ...(finished === undefined ? {} : { finished }),
    };
    const reader = this.#readers.shift();
    if (reader === undefined) this.#pieces.push(piece);
    else reader.resolve({ done: false, value: piece });
  }

  end(): void {
    this.#ended = true;
    for (const reader of this.#readers.splice(0)) reader.resolve(DONE);
  }

  /** Told once, after the pieces that came before it. */
  fail(error: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    const [first, ...others] = this.#readers.splice(0);
    if (first === undefined) this.#failure = { error };
    else first.reject(error);
    for (const reader of others) reader.resolve(DONE);
  }

  next(): Promise<IteratorResult<CompletionDelta, undefined>> {
    const piece = this.#pieces.shift();
    if (piece !== undefined) return Promise.resolve({ done: false, value: piece });
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) return Promise.reject(failure.error);
    if (this.#ended) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }
}

// Name of before, until src/completion uses the new one.
export { DeltaStream as PieceStream };
