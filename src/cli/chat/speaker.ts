// What answers, as the conversation sees it: messages become a prompt, and a prompt is answered delta by delta.

import type { CompletionSummary } from "../../engine/serving.js";
import type { AnswerDelta } from "./answer-view.js";
import type { SpokenMessage } from "./conversation.js";

export interface Answer {
  /** Ends, without an error, when the signal is aborted. */
  readonly deltas: AsyncIterable<AnswerDelta>;
  readonly summary: Promise<CompletionSummary>;
}

export interface AnswerOptions {
  /** Which attempt this is, from 0: another one gives another text, also with a fixed seed. */
  readonly attempt: number;
  readonly signal: AbortSignal;
  /** Fewer than the limit of the speaker, if given. */
  readonly maxTokens?: number;
}

export interface PreparedPrompt {
  readonly tokens: number;
  answer(options: AnswerOptions): Answer;
}

export interface Speaker {
  readonly modelName: string;
  readonly contextTokens: number;
  /** The most tokens of an answer, if there is a limit beside the context. */
  readonly maxAnswerTokens: number | undefined;
  prepare(messages: readonly SpokenMessage[], signal: AbortSignal): Promise<PreparedPrompt>;
}
