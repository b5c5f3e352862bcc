// A completion that was refused before it began: reading it or awaiting its summary rejects with the reason.

import type { CompletionDelta, CompletionSummary, WholeCompletion } from "./serving.js";

/** A completion that was refused: it rejects with the reason wherever it is read. */
export class FailedCompletion implements WholeCompletion {
  readonly summary: Promise<CompletionSummary>;
  readonly cachedTokens = undefined;
  readonly #reason: unknown;

  constructor(reason: unknown) {
    this.#reason = reason;
    this.summary = Promise.reject(reason);
    // A summary that is not awaited must not end the process.
    this.summary.catch(() => {});
  }

  text(): string {
    return "";
  }

  cancel(): void {}

  [Symbol.asyncIterator](): AsyncIterator<CompletionDelta, undefined> {
    return { next: () => Promise.reject(this.#reason) };
  }
}
