// The data of a chat: messages, tools, and what is asked of the reply. The APIs convert their requests to these types,
// and template-variables.ts converts these to the variables of templates.

/** A call of a tool by the assistant. */
export interface ChatToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, as the model generated it or the client sent it back. */
  readonly arguments: string;
}

/** A message of a chat. */
export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly name?: string;
  /** The assistant's reasoning before its reply. */
  readonly reasoning?: string;
  readonly toolCalls?: readonly ChatToolCall[];
  /** The id of the call whose result a tool message is. */
  readonly toolCallId?: string;
}

/** A tool that the model may call. */
export interface ChatTool {
  readonly name: string;
  readonly description?: string;
  /** JSON schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** Whether the model may, must or must not call tools, or which tool it must call. */
export type ToolChoice =
  | { readonly kind: "none" | "auto" | "required" }
  | { readonly kind: "named"; readonly name: string };

/** A chat as the template renders it. */
export interface ChatConversation {
  readonly messages: readonly ChatMessage[];
  /** Tools that the prompt shows to the model. */
  readonly tools: readonly ChatTool[];
  readonly toolChoice: ToolChoice;
  /** Whether a reply may have several calls; true by default. */
  readonly parallelCalls?: boolean;
  /** Whether the model reasons before it replies; undefined leaves that to the template. */
  readonly thinking: boolean | undefined;
  /** Whether the reply is constrained by a grammar, from its first token on or behind its reasoning. */
  readonly constrained: boolean;
  /** Further variables for the template. */
  readonly templateOptions: Readonly<Record<string, unknown>>;
  /** Whether the prompt of a next turn is rendered, too, to tell which part of this one it will share. */
  readonly showsNextTurn?: boolean;
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
