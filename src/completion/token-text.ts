// The text of single tokens.

import type { Tokenizer } from "../tokenizer/tokenizer.js";

/** The text of a token, control tokens by their name; a token that is part of a character has replacement characters. */
export function tokenText(tokenizer: Tokenizer, token: number): string {
  return Buffer.from(tokenizer.tokenBytes(token, true)).toString("utf8");
}
