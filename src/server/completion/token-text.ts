// Tokens as answers show them: their text, their bytes, and how likely they and their rivals were.

import type { TokenLogprob } from "../../engine/serving.js";
import type { Tokenizer } from "../../tokenizer/tokenizer.js";

export interface ShownToken {
  readonly token: string;
  /** A token may be part of a character: the bytes are exact where the text is not. */
  readonly bytes: readonly number[];
  readonly logprob: number;
}

export interface ShownLogprob extends ShownToken {
  readonly top_logprobs: readonly ShownToken[];
}

/** JSON knows no infinity: what cannot be at all is this unlikely. */
const LEAST_LOGPROB = -9999;

export function finiteLogprob(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : LEAST_LOGPROB;
}

/** As printed, control tokens by their name. */
export function tokenText(tokenizer: Tokenizer, token: number): string {
  return Buffer.from(tokenizer.tokenBytes(token, true)).toString("utf8");
}

function showToken(tokenizer: Tokenizer, token: number, logprob: number, droppedBytes = 0): ShownToken {
  const bytes = Buffer.from(tokenizer.tokenBytes(token, true)).subarray(droppedBytes);
  return { token: bytes.toString("utf8"), logprob: finiteLogprob(logprob), bytes: [...bytes] };
}

/** Leaves out the first `droppedBytes` of the first token. */
export function showLogprobs(
  tokenizer: Tokenizer,
  tokens: readonly TokenLogprob[],
  droppedBytes: number,
): readonly ShownLogprob[] {
  return tokens.map(({ token, logprob, top }, index) => ({
    ...showToken(tokenizer, token, logprob, index === 0 ? droppedBytes : 0),
    top_logprobs: top.map((rival) => showToken(tokenizer, rival.token, rival.logprob)),
  }));
}
