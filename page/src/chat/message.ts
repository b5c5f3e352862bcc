// Conversations and messages as the browser keeps them. Messages form a tree: editing a question or regenerating an
// answer adds a sibling, and a conversation's leaf names the branch that is shown.

import type { Usage } from "../api/chat";

/** A call of a tool that an answer asks for. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, possibly incomplete while it is generated. */
  readonly arguments: string;
}

/** A file that a question carries, as text. */
export interface Attachment {
  readonly name: string;
  readonly text: string;
}

/** How long an answer took. */
export interface AnswerTimings {
  readonly firstTokenMs: number;
  readonly generationMs: number;
}

/** Why an answer ended; "stopped" by the user. */
export type AnswerEnd = "stop" | "length" | "tool_calls" | "stopped" | "error";

/** A question, an answer or the result of a tool. */
export interface Message {
  readonly id: string;
  readonly conversationId: string;
  /** Null for the first message of a conversation. */
  readonly parentId: string | null;
  readonly role: "user" | "assistant" | "tool";
  readonly content: string;
  readonly createdAt: number;
  readonly attachments?: readonly Attachment[];
  readonly toolCallId?: string;
  readonly reasoning?: string;
  readonly reasoningMs?: number;
  readonly toolCalls?: readonly ToolCall[];
  readonly model?: string;
  readonly usage?: Usage;
  readonly timings?: AnswerTimings;
  /** Absent while the answer is generated. */
  readonly end?: AnswerEnd;
  readonly error?: string;
}

/** How answers of a conversation are generated. Absent numbers are the model's own defaults. */
export interface ChatSettings {
  readonly systemPrompt: string;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly minP?: number;
  readonly repetitionPenalty?: number;
  readonly maxTokens?: number;
  readonly seed?: number;
  readonly reasoning: "default" | "off" | "low" | "medium" | "high";
  /** A JSON list of tools as the API takes them; empty if there are none. */
  readonly tools: string;
}

/** A conversation without its messages. */
export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** Whether the user chose the title. */
  readonly isNamed?: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The last message of the branch that is shown; null if there is none. */
  readonly leafId: string | null;
  readonly settings: ChatSettings;
}

/** The settings of a new conversation. */
export const DEFAULT_SETTINGS: ChatSettings = { systemPrompt: "", reasoning: "default", tools: "" };

const MAX_TITLE_CHARACTERS = 60;

/** A title from a first question: its first line, shortened at a word. */
export function titleOf(question: string): string {
  const line = question.trim().split("\n", 1)[0] ?? "";
  if (line.length <= MAX_TITLE_CHARACTERS) return line === "" ? "New chat" : line;
  const cut = line.slice(0, MAX_TITLE_CHARACTERS);
  return `${cut.slice(0, Math.max(cut.lastIndexOf(" "), MAX_TITLE_CHARACTERS / 2)).trimEnd()}…`;
}
