// Caches the tokens of words; text repeats its words, so most are found here. Invariant: bounded in entries and in word
// length, and emptied when full, because which words come next cannot be known.

import type { TokenBuffer } from "./token-buffer.js";

const MAX_WORDS = 32_768;
const MAX_WORD_BYTES = 64;

/** A bounded cache of the tokens of words. */
export class WordCache {
  readonly #words = new Map<string, Int32Array>();

  /** Appends the word's tokens to `output`: cached ones, or those that `encode` appends. */
  encode(bytes: Buffer, start: number, end: number, output: TokenBuffer, encode: () => void): void {
    if (end - start > MAX_WORD_BYTES) {
      encode();
      return;
    }
    const key = bytes.toString("latin1", start, end);
    const known = this.#words.get(key);
    if (known !== undefined) {
      output.append(known);
      return;
    }
    const from = output.length;
    encode();
    if (this.#words.size >= MAX_WORDS) this.#words.clear();
    this.#words.set(key, output.since(from));
  }
}
