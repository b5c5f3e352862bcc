// A completion that was refused before it began: whoever reads it or asks for its summary is told why.

import type { CompletionDelta, CompletionSummary, WholeCompletion } from "./serving.js";

export class FailedCompletion implements WholeCompletion {
  readonly summary: Promise<CompletionSummary>;
  readonly cachedTokens = undefined;
  readonly #reason: unknown;

  constructor(reason: unknown) {
    this.#reason = reason;
    this.summary = Promise.reject(reason);
    // Not everybody asks.
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
