// What the server needs of chats and grammars, and no more: src/chat and src/grammar stand behind these in the program,
// fakes in tests. Invariants: both may take long and think elsewhere (worker threads), so both are promises that hear a
// signal; both fail with a ChatError or a GrammarError, which the client is told.

import type { ChatConversation, ChatDelta } from "../chat/message.js";
import type { ServedModel, TokenConstraint } from "../engine/serving.js";

/** Reads one choice's text as it comes, cut anywhere; nothing is lost: what is no call is text. */
export interface ChatParser {
  push(text: string): readonly ChatDelta[];
  end(): readonly ChatDelta[];
}

export interface RenderedChat {
  readonly prompt: string;
  /** Whether the tokenizer shall add BOS: false where the template wrote it. */
  readonly addSpecial: boolean;
  /** Text that ends the answer in this model's convention, beside its end tokens. */
  readonly stop: readonly string[];
  /** Control tokens that are part of the answer's text here. */
  readonly printedTokens: ReadonlySet<number>;
  /** The form a call must have, where the tool choice demands one. */
  readonly callGrammar: GrammarSpec | undefined;
  createParser(): ChatParser;
}

export interface ChatService {
  render(model: ServedModel, conversation: ChatConversation, signal: AbortSignal): Promise<RenderedChat>;
}

export type JsonSchema = Readonly<Record<string, unknown>> | boolean;

/** Literal text, a value of a schema, literal text: a tool call as some convention spells it. */
export interface ToolCallForm {
  readonly prefix: string;
  readonly schema: JsonSchema;
  readonly suffix: string;
}

export type GrammarSpec =
  | { readonly kind: "json-object" }
  | { readonly kind: "json-schema"; readonly schema: JsonSchema }
  | { readonly kind: "regex"; readonly pattern: string }
  | { readonly kind: "grammar"; readonly text: string }
  /** One of these. */
  | { readonly kind: "tool-call"; readonly forms: readonly ToolCallForm[] };

export interface GrammarService {
  constraint(model: ServedModel, spec: GrammarSpec, signal: AbortSignal): Promise<TokenConstraint>;
}
