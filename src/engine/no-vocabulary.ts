// Tokens as completions see them: their texts, and which end a generation. In a file without a vocabulary tokens have no
// text, and none ends a generation.

import { StreamDecoder } from "../tokenizer/stream-decoder.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";

/** The parts of a tokenizer that a completion needs. */
export type TokenTexts = Pick<Tokenizer, "endOfGeneration" | "createDecoder" | "tokenBytes">;

const NO_BYTES = new Uint8Array();

/** Token texts of a file without a vocabulary. */
export const NO_VOCABULARY: TokenTexts = {
  endOfGeneration: new Set<number>(),
  tokenBytes: () => NO_BYTES,
  createDecoder: () => new StreamDecoder(() => NO_BYTES, false),
};

/** A decoder that continues from the prompt, so that the first token keeps its leading space. */
export function decoderOf(tokenizer: TokenTexts, printed: ReadonlySet<number> | undefined): StreamDecoder {
  if (printed === undefined) return tokenizer.createDecoder({ continuation: true });
  return new StreamDecoder((token) => tokenizer.tokenBytes(token, printed.has(token)), false);
}

/** A draft up to a token that would end the text: such a token needs no verification in advance. */
export function withoutEnd(draft: Int32Array, { endOfGeneration }: TokenTexts): Int32Array {
  const end = draft.findIndex((token) => endOfGeneration.has(token));
  return end < 0 ? draft : draft.subarray(0, end);
}
