// Tokenizing and detokenizing for requests: short texts at once, long ones in a worker thread, so that no other stream
// waits for them.

import {
  answerTokenizerCall,
  charactersOf,
  type TokenizerCall,
  type TokenizerResult,
} from "../tokenizer/tokenizer-call.js";
import { type TokenizerSource, TokenizerWorker } from "../tokenizer/tokenizer-worker.js";
import type { CompletionModel } from "./completion-model.js";

/** Encoded in a fraction of a millisecond. */
const SHORT_CHARACTERS = 1024;
/** A few milliseconds at worst: encoded at once if the main thread is free. */
const MEDIUM_CHARACTERS = 8192;

/** The main thread's time, as the server divides it between requests. */
interface MainThread {
  /** Whether short work may be done at once. */
  readonly isFree: boolean;
  /** Does work that cannot be divided, and accounts for its time. */
  doNow<Result>(work: () => Result): Result;
}

const UNSHARED: MainThread = { isFree: true, doNow: (work) => work() };

type TokenizedModel = Pick<CompletionModel, "tokenizer" | "readHeader">;

/** Runs tokenizer calls where they hold up the least. */
export class Tokenization implements AsyncDisposable {
  readonly #mainThread: MainThread;
  readonly #worker = new TokenizerWorker();

  constructor(mainThread: MainThread = UNSHARED) {
    this.#mainThread = mainThread;
  }

  async run<Call extends TokenizerCall>(
    model: TokenizedModel,
    call: Call,
    signal?: AbortSignal,
  ): Promise<TokenizerResult<Call>> {
    const characters = charactersOf(call);
    const isShort = characters <= SHORT_CHARACTERS || (characters <= MEDIUM_CHARACTERS && this.#mainThread.isFree);
    if (isShort || !hasFile(model)) return this.#mainThread.doNow(() => answerTokenizerCall(model.tokenizer, call));
    return await this.#worker.run(model, call, signal);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#worker[Symbol.asyncDispose]();
  }
}

function hasFile(model: TokenizedModel): model is TokenizedModel & TokenizerSource {
  return model.readHeader !== undefined;
}
