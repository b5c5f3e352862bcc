// The text of /stats: about the last answer, the context and the session.

import type { CompletionSummary } from "../../engine/serving.js";
import { countOf, formatCount, formatDuration, formatRate, formatShare } from "../format.js";

/** Counts tokens of a session for `/stats`. */
export class ChatStatistics {
  #last: CompletionSummary | undefined;
  #answers = 0;
  #promptTokens = 0;
  #cachedTokens = 0;
  #generatedTokens = 0;

  add(summary: CompletionSummary): void {
    this.#last = summary;
    this.#answers++;
    this.#promptTokens += summary.promptTokens;
    this.#cachedTokens += summary.cachedTokens;
    this.#generatedTokens += summary.generatedTokens;
  }

  /** `usedTokens` is undefined before the first answer. */
  describe(turns: number, usedTokens: number | undefined, contextTokens: number): string {
    const context =
      usedTokens === undefined
        ? ""
        : `, ${formatCount(usedTokens)} of ${countOf(contextTokens, "token")} of the context (${formatShare(usedTokens / contextTokens)})`;
    return [
      this.#last === undefined ? "last answer: none yet" : `last answer: ${describeSummary(this.#last)}`,
      `conversation: ${countOf(turns, "turn")}${context}`,
      `session: ${countOf(this.#answers, "answer")}, ${countOf(this.#generatedTokens, "token")} written, ${formatCount(this.#promptTokens)} read, ` +
        `${formatCount(this.#cachedTokens)} of them from the cache`,
      "",
    ].join("\n");
  }
}

function describeSummary(summary: CompletionSummary): string {
  const { generatedTokens, promptTokens, cachedTokens, tokensPerSecond, timeToFirstTokenMs, seed, choices } = summary;
  return (
    `${countOf(generatedTokens, "token")} (${formatRate(tokensPerSecond)} tokens/s), the first after ${formatDuration(timeToFirstTokenMs)}, ` +
    `prompt ${countOf(promptTokens, "token")}, ${formatCount(cachedTokens)} of them from the cache, reason ${choices[0]?.reason ?? "abort"}, seed ${seed}`
  );
}
