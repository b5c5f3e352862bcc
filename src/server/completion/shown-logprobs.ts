// Tokens as OpenAI's responses show them: text, bytes, and log-probabilities with those of the alternatives.

import type { TextTokens } from "../../completion/chat-event.js";
import type { Tokenizer } from "../../tokenizer/tokenizer.js";

/** A token with its log-probability. */
interface ShownToken {
  readonly token: string;
  /** A token may be a part of a character: the bytes are exact even if the text is not. */
  readonly bytes: readonly number[];
  readonly logprob: number;
}

/** A generated token with its log-probability and those of its alternatives. */
export interface ShownLogprob extends ShownToken {
  readonly top_logprobs: readonly ShownToken[];
}

/** JSON has no infinity: the log-probability of a token that is impossible. */
const LEAST_LOGPROB = -9999;

/** A log-probability that JSON can represent. */
export function finiteLogprob(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : LEAST_LOGPROB;
}

function showToken(tokenizer: Tokenizer, token: number, logprob: number, droppedBytes = 0): ShownToken {
  const bytes = Buffer.from(tokenizer.tokenBytes(token, true)).subarray(droppedBytes);
  return { token: bytes.toString("utf8"), logprob: finiteLogprob(logprob), bytes: [...bytes] };
}

/** The log-probabilities of a text event's tokens, without the bytes that the text does not contain. */
export function showLogprobs(tokenizer: Tokenizer, { tokens, droppedBytes }: TextTokens): readonly ShownLogprob[] {
  return tokens.map(({ token, logprob, top }, index) => ({
    ...showToken(tokenizer, token, logprob, index === 0 ? droppedBytes : 0),
    top_logprobs: top.map((alternative) => showToken(tokenizer, alternative.token, alternative.logprob)),
  }));
}
