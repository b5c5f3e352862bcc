// What the answers of OpenAI's endpoints have in common: an id, a time, the tokens that were read and written, and the
// last line of a stream.

import { randomBytes } from "node:crypto";
import type { CompletionSummary } from "../engine/serving.js";

/** The data of a stream's last event. */
export const LAST_DATA = "[DONE]";
const ID_BYTES = 12;

export interface AnswerHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

export function answerHead(idPrefix: string, model: string): AnswerHead {
  return { id: makeId(idPrefix), created: nowSeconds(), model };
}

export function makeId(prefix: string): string {
  return `${prefix}${randomBytes(ID_BYTES).toString("hex")}`;
}

export function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

/** Of all prompts together. */
export function usageOf(...summaries: readonly CompletionSummary[]): object {
  const sum = (count: (summary: CompletionSummary) => number): number => summaries.reduce((total, summary) => total + count(summary), 0);
  const promptTokens = sum((summary) => summary.promptTokens);
  const generatedTokens = sum((summary) => summary.generatedTokens);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: generatedTokens,
    total_tokens: promptTokens + generatedTokens,
    prompt_tokens_details: { cached_tokens: sum((summary) => summary.cachedTokens) },
  };
}
