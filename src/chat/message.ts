// What a chat is made of: messages, tools, and what is asked of the answer. Plain data, in this project's words; the doors
// turn their own forms into these, template-variables.ts turns these into what templates know.

export interface ChatToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, as the model wrote it or the client gave it back. */
  readonly arguments: string;
}

export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly name?: string;
  /** What the assistant thought before it answered. */
  readonly reasoning?: string;
  readonly toolCalls?: readonly ChatToolCall[];
  /** Which call a tool's message answers. */
  readonly toolCallId?: string;
}

export interface ChatTool {
  readonly name: string;
  readonly description?: string;
  /** JSON schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

export type ToolChoice =
  | { readonly kind: "none" | "auto" | "required" }
  | { readonly kind: "named"; readonly name: string };

export interface ChatConversation {
  readonly messages: readonly ChatMessage[];
  /** Empty where the model shall know of none. */
  readonly tools: readonly ChatTool[];
  readonly toolChoice: ToolChoice;
  /** Whether it shall think before it answers; undefined leaves it to the template. */
  readonly thinking: boolean | undefined;
  /** The answer's first token is held to a grammar already, so no reasoning block may be open before it. */
  readonly constrained: boolean;
  /** Variables for the template beside the usual ones. */
  readonly templateOptions: Readonly<Record<string, unknown>>;
}

/** A part of the generated text, classified by the parser. */
export type ChatDelta =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "reasoning"; readonly text: string }
  | { readonly kind: "call"; readonly index: number; readonly id: string; readonly name: string }
  | { readonly kind: "arguments"; readonly index: number; readonly text: string }
  | { readonly kind: "call-end"; readonly index: number };

/** Splits the generated text of one choice into text, reasoning and tool calls, wherever the text is cut. */
export interface ChatParser {
  /** Takes the next text; parts that may still become a call or a mark are held back. */
  push(text: string): readonly ChatDelta[];
  /** Takes the end of the text: whatever was held back is returned, as text if it is no call. */
  end(): readonly ChatDelta[];
}
