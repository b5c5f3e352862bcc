// Vocabularies for walks over masks: every byte by itself, and words cut out of accepted texts, so that tokens begin and
// end in the middle of everything: characters, escapes, numbers, names, punctuation between values.

import type { PackedVocabulary } from "../../../src/grammar/automaton/packed-vocabulary.js";
import type { Dice } from "../../support/dice.js";

const BYTES = 256;
const LONGEST_TOKEN_BYTES = 12;

/** Two end tokens stand behind the others, as many models have several. */
export function packTokens(tokens: readonly Uint8Array[]): PackedVocabulary {
  const offsets = new Uint32Array(tokens.length + 3);
  tokens.forEach((token, index) => {
    offsets[index + 1] = (offsets[index] as number) + token.length;
  });
  const total = offsets[tokens.length] as number;
  offsets.fill(total, tokens.length);
  const bytes = new Uint8Array(total);
  tokens.forEach((token, index) => bytes.set(token, offsets[index]));
  return { size: tokens.length + 2, offsets, bytes, endTokens: [tokens.length, tokens.length + 1] };
}

const SINGLE_BYTES = Array.from({ length: BYTES }, (_, byte) => Uint8Array.of(byte));

export const BYTE_VOCABULARY: PackedVocabulary = packTokens(SINGLE_BYTES);

/** All bytes, an empty token as control tokens are, the same word twice, and `count` words cut out of the texts. */
export function cutVocabulary(texts: readonly Uint8Array[], dice: Dice, count: number): PackedVocabulary {
  const words = new Map<string, Uint8Array>();
  const usable = texts.filter((text) => text.length > 1);
  for (let tries = 0; usable.length > 0 && words.size < count && tries < 4 * count; tries++) {
    const text = dice.pick(usable);
    const start = dice.below(text.length);
    const word = text.subarray(start, start + 2 + dice.below(LONGEST_TOKEN_BYTES - 1));
    if (word.length > 1) words.set(Buffer.from(word).toString("latin1"), word);
  }
  const cut = [...words.values()];
  return packTokens([...SINGLE_BYTES, new Uint8Array(), ...cut, ...cut.slice(0, 1)]);
}

export function tokenBytes({ offsets, bytes }: PackedVocabulary, token: number): Uint8Array {
  return bytes.subarray(offsets[token], offsets[token + 1]);
}
