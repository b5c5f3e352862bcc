// Encodes and decodes long texts in one worker thread for all models: on the main thread, a megabyte of text would
// stall all requests. A model's header is resent if the worker does not know the model.

import type { HeaderBytes } from "../gguf/header-bytes.js";
import { ServingError } from "../errors.js";
import { builtFile } from "../worker/built-file.js";
import { type CallOutcome, LimitedWorker } from "../worker/limited-worker.js";
import type { TokenizerCall, TokenizerResult } from "./tokenizer-call.js";
import type { TokenizerAnswer, TokenizerQuestion } from "./tokenizer-message.js";

/** The time limit for the longest text, on a busy machine. */
const DEADLINE_MS = 60_000;
const HEAP_MB = 256;
const MAX_WAITING = 64;
const RETRY_AFTER_MS = 2000;

/** The model whose tokenizer the worker uses. */
export interface TokenizerSource {
  readHeader(): Promise<HeaderBytes>;
}

/** Runs tokenizer calls on long texts in a worker thread, for all models. */
export class TokenizerWorker implements AsyncDisposable {
  readonly #worker = new LimitedWorker({
    name: "tokenizer",
    file: builtFile(import.meta.url, "./tokenizer-thread.js"),
    deadlineMs: DEADLINE_MS,
    heapMb: HEAP_MB,
    maxQueued: MAX_WAITING,
  });
  readonly #numbers = new WeakMap<TokenizerSource, number>();
  #models = 0;

  async run<Call extends TokenizerCall>(
    model: TokenizerSource,
    call: Call,
    signal?: AbortSignal,
  ): Promise<TokenizerResult<Call>> {
    const number = this.#numberOf(model);
    let answer = await this.#ask({ model: number, header: undefined, call }, signal);
    if (answer.kind === "unknown-model")
      answer = await this.#ask({ model: number, header: await model.readHeader(), call }, signal);
    if (answer.kind === "unknown-model") throw new RangeError("a tokenizer that was just made is not known");
    return answer.result as TokenizerResult<Call>;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#worker[Symbol.asyncDispose]();
  }

  async #ask(question: TokenizerQuestion, signal: AbortSignal | undefined): Promise<TokenizerAnswer> {
    const outcome = await this.#worker.call<TokenizerQuestion, TokenizerAnswer>(question, { signal });
    if (outcome.kind === "answer") return outcome.value;
    throw failure(outcome);
  }

  #numberOf(model: TokenizerSource): number {
    const known = this.#numbers.get(model);
    if (known !== undefined) return known;
    this.#numbers.set(model, ++this.#models);
    return this.#models;
  }
}

function failure(outcome: Exclude<CallOutcome<unknown>, { kind: "answer" }>): Error {
  if (outcome.kind === "full") {
    return new ServingError("SERVING_QUEUE_FULL", `[tokenizer] ${outcome.message}; try again later`, {
      details: { retryAfterMs: RETRY_AFTER_MS },
    });
  }
  if (outcome.kind === "thrown") return new Error(`the tokenizer's thread failed: ${outcome.message}`);
  return new ServingError(
    "SERVING_QUEUE_FULL",
    `[tokenizer] a long text ${outcome.message}; send a shorter one, or try again later`,
    { details: { retryAfterMs: RETRY_AFTER_MS } },
  );
}
