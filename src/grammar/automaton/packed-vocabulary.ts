// A vocabulary as bytes in memory shared by all threads: the text of each token, and the tokens that end a text.
// Control tokens have byte sequences that no text contains; a token without bytes is never allowed.

import { CONTROL_BYTE, controlBytes } from "../control-tokens.js";
import type { Tokenizer } from "../../tokenizer/tokenizer.js";

/** A vocabulary in shared memory. */
export interface PackedVocabulary {
  /** Number of the model's logits, which may exceed the number of the tokenizer's tokens. */
  readonly size: number;
  /** The offset of each token's bytes; one entry more than there are tokens. */
  readonly offsets: Uint32Array;
  readonly bytes: Uint8Array;
  readonly endTokens: readonly number[];
}

/** Tokens that are packed at a time, in about a millisecond; a large vocabulary takes a tenth of a second in total. */
const TOKENS_A_TURN = 2048;

/** The part of a tokenizer that a vocabulary is made of. */
export type VocabularyTokenizer = Pick<Tokenizer, "vocabularySize" | "tokenBytes" | "endOfGeneration" | "encode">;

function grammarBytes(tokenizer: VocabularyTokenizer, token: number): Uint8Array {
  const text = tokenizer.tokenBytes(token);
  if (text.includes(CONTROL_BYTE)) return new Uint8Array();
  return text.length === 0 && tokenizer.tokenBytes(token, true).length > 0 ? controlBytes(token) : text;
}

/** Packs the vocabulary of a tokenizer, in steps that do not block the main thread. */
export async function packVocabulary(tokenizer: VocabularyTokenizer, size: number): Promise<PackedVocabulary> {
  const endTokens = [...tokenizer.endOfGeneration].filter((token) => token < size).sort((a, b) => a - b);
  const known = Math.min(size, tokenizer.vocabularySize);
  const offsets = new Uint32Array(new SharedArrayBuffer(4 * (size + 1)));
  const texts: Uint8Array[] = [];
  let total = 0;
  for (let token = 0; token < size; token++) {
    const text =
      token < known && !tokenizer.endOfGeneration.has(token) ? grammarBytes(tokenizer, token) : new Uint8Array();
    texts.push(text);
    total += text.length;
    offsets[token + 1] = total;
    if (token % TOKENS_A_TURN === TOKENS_A_TURN - 1) await new Promise(setImmediate);
  }
  const bytes = new Uint8Array(new SharedArrayBuffer(total));
  texts.forEach((text, token) => bytes.set(text, offsets[token]));
  return { size, offsets, bytes, endTokens };
}
