// Texts to tokens and back for requests: short ones at once, long ones in a worker thread, so that no stream waits for
// another client's text. A text too long for the context, whatever its tokens are, is refused without tokenizing it.

import type { ServedModel } from "../../engine/serving.js";
import {
  answerTokenizerCall,
  charactersOf,
  type TokenizerCall,
  type TokenizerResult,
} from "../../tokenizer/tokenizer-call.js";
import { type TokenizerSource, TokenizerWorker } from "../../tokenizer/tokenizer-worker.js";
import type { TimeShare } from "../http/time-share.js";

/** Encoded in a fraction of a millisecond. */
const SHORT_CHARACTERS = 1024;
/** Some milliseconds at worst: done at once as long as the thread is free. */
const MEDIUM_CHARACTERS = 8192;

export class Tokenization implements AsyncDisposable {
  readonly #share: TimeShare;
  readonly #worker = new TokenizerWorker();

  constructor(share: TimeShare) {
    this.#share = share;
  }

  async run<Call extends TokenizerCall>(
    model: ServedModel,
    call: Call,
    signal: AbortSignal,
  ): Promise<TokenizerResult<Call>> {
    const characters = charactersOf(call);
    const isShort = characters <= SHORT_CHARACTERS || (characters <= MEDIUM_CHARACTERS && this.#share.isFree);
    if (isShort || !hasFile(model)) return this.#share.doNow(() => answerTokenizerCall(model.tokenizer, call));
    return await this.#worker.run(model, call, signal);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#worker[Symbol.asyncDispose]();
  }
}

function hasFile(model: ServedModel): model is ServedModel & TokenizerSource {
  return model.readHeader !== undefined;
}

/** Whether a text is longer than so many tokens can be: no tokenizer need be asked. */
export function exceedsTokens({ tokenizer }: ServedModel, characters: number, tokens: number): boolean {
  return characters > tokens * tokenizer.longestTokenBytes;
}
