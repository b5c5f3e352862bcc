// The answers of /v1/completions: texts with the API's older form of log-probabilities.

import type { ChoiceSummary, CompletionPiece } from "../../../../engine/serving.js";
import type { Tokenizer } from "../../../../tokenizer/tokenizer.js";
import { finiteLogprob, tokenText } from "../../../completion/token-text.js";

export interface TextLogprobs {
  readonly tokens: string[];
  readonly token_logprobs: number[];
  readonly top_logprobs: Record<string, number>[];
  /** Where each token begins in the choice's text, in characters. */
  readonly text_offset: number[];
}

export function emptyLogprobs(): TextLogprobs {
  return { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
}

/** Appends a piece's; returns where the next token begins. */
export function addLogprobs(
  logprobs: TextLogprobs,
  piece: CompletionPiece,
  tokenizer: Tokenizer,
  offset: number,
): number {
  let at = offset;
  for (const { token, logprob, top } of piece.logprobs) {
    const text = tokenText(tokenizer, token);
    logprobs.tokens.push(text);
    logprobs.token_logprobs.push(finiteLogprob(logprob));
    logprobs.top_logprobs.push(
      Object.fromEntries(top.map((rival) => [tokenText(tokenizer, rival.token), finiteLogprob(rival.logprob)])),
    );
    logprobs.text_offset.push(at);
    at += text.length;
  }
  return at;
}

export function finishReason({ reason }: ChoiceSummary): "stop" | "length" {
  return reason === "stop" ? "stop" : "length";
}
