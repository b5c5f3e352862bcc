// Whatever answers, as the conversation sees it: messages become a prompt, and a prompt is answered delta by delta.

import type { CompletionSummary } from "../../engine/serving.js";
import type { AnswerDelta } from "./answer-view.js";
import type { SpokenMessage } from "./conversation.js";

/** A running answer. */
export interface Answer {
  /** Ends without an error when the signal is aborted. */
  readonly deltas: AsyncIterable<AnswerDelta>;
  readonly summary: Promise<CompletionSummary>;
}

/** How one answer is generated. */
export interface AnswerOptions {
  /** Number of the attempt, from 0: another one gives another text, even with a fixed seed. */
  readonly attempt: number;
  readonly signal: AbortSignal;
  /** A limit below the speaker's own. */
  readonly maxTokens?: number;
}

/** A rendered and tokenized prompt. */
export interface PreparedPrompt {
  readonly tokens: number;
  answer(options: AnswerOptions): Answer;
}

/** Answers conversations; a model, or a test's script. */
export interface Speaker {
  readonly modelName: string;
  readonly contextTokens: number;
  /** Maximum number of tokens of an answer; undefined if only the context limits it. */
  readonly maxAnswerTokens: number | undefined;
  prepare(messages: readonly SpokenMessage[], signal: AbortSignal): Promise<PreparedPrompt>;
}
