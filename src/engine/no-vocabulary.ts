// Replaces the tokenizer of a file without a vocabulary: tokens have no text, and none ends a generation.

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
