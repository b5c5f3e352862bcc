// Long texts to tokens and back in a thread of their own, for all models: on the thread that computes and serves, a
// megabyte of text would stall all requests. A model's vocabulary is sent when the thread does not know it.

import type { HeaderBytes } from "../gguf/header-bytes.js";
import { ServingError } from "../errors.js";
import { builtFile } from "../worker/built-file.js";
import { type CallOutcome, LimitedWorker } from "../worker/limited-worker.js";
import type { TokenizerCall, TokenizerResult } from "./tokenizer-call.js";
import type { TokenizerAnswer, TokenizerQuestion } from "./tokenizer-message.js";

/** For the longest text, on a machine that is busy with other things. */
const DEADLINE_MS = 60_000;
const HEAP_MB = 256;
const MAX_WAITING = 64;
const RETRY_AFTER_MS = 2000;

/** A model as far as its tokenizer is concerned. */
export interface TokenizerSource {
  readHeader(): Promise<HeaderBytes>;
}

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
