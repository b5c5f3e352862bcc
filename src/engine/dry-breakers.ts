// Converts DRY breakers from text to tokens. A text breaks wherever it occurs: inside one token, or as the tokens that
// spell it.

import type { Tokenizer } from "../tokenizer/tokenizer.js";

/** Line ends, and marks of speakers and emphasis: repetition across these is structure. */
export const DEFAULT_DRY_BREAKERS: readonly string[] = ["\n", ":", '"', "*"];

/** The token sequences that break a repetition, for texts in a model's vocabulary. */
export function resolveDryBreakers(texts: readonly string[], tokenizer: Tokenizer): readonly (readonly number[])[] {
  const wanted = texts.map((text) => Buffer.from(text));
  const sequences: number[][] = [];
  for (let id = 0; id < tokenizer.vocabularySize; id++) {
    const bytes = Buffer.from(tokenizer.tokenBytes(id));
    if (wanted.some((breaker) => bytes.includes(breaker))) sequences.push([id]);
  }
  for (const text of texts) {
    const written = [...tokenizer.encode(text, { addSpecial: false, parseSpecial: false })];
    if (written.length > 1) sequences.push(written);
  }
  return sequences;
}
