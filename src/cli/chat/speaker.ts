// Who answers, as the conversation sees it: messages become a prompt, and a prompt is answered delta by delta.

import type { CompletionSummary } from "../../engine/serving.js";
import type { AnswerDelta } from "./answer-view.js";
import type { SpokenMessage } from "./conversation.js";

export interface Answer {
  /** Ends, without an error, when the signal is aborted. */
  readonly deltas: AsyncIterable<AnswerDelta>;
  readonly summary: Promise<CompletionSummary>;
}

export interface AnswerOptions {
  /** Which try it is, from 0: another one gives another text, also with a seed that was given. */
  readonly attempt: number;
  readonly signal: AbortSignal;
  /** Fewer than the speaker's own limit, if anything. */
  readonly maxTokens?: number;
}

export interface PreparedPrompt {
  readonly tokens: number;
  answer(options: AnswerOptions): Answer;
}

export interface Speaker {
  readonly modelName: string;
  readonly contextTokens: number;
  /** The most tokens of an answer, where there is a limit beside the context. */
  readonly maxAnswerTokens: number | undefined;
  prepare(messages: readonly SpokenMessage[], signal: AbortSignal): Promise<PreparedPrompt>;
}
