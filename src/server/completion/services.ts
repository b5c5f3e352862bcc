// What the server needs of chats and grammars, and no more: src/chat and src/grammar stand behind these in the program,
// fakes in tests. Invariants: both may take long and think elsewhere (worker threads), so both are promises that hear a
// signal; both fail with a ChatError, a GrammarError, or a ServingError where too many wait, which the client is told.

import type { ChatConversation, ChatDelta } from "../../chat/message.js";
import type { ServedModel, TokenConstraint } from "../../engine/serving.js";
import type { GrammarSpec, SchemaForm } from "../../grammar/grammar-spec.js";
import type { TextSegment } from "../../tokenizer/tokenizer.js";

/** Reads one choice's text as it comes, cut anywhere; nothing is lost: what is no call is text. */
export interface ChatParser {
  push(text: string): readonly ChatDelta[];
  end(): readonly ChatDelta[];
}

export interface RenderedChat {
  /** To be shown and counted. */
  readonly prompt: string;
  /** To be encoded: only what the template wrote may become control tokens. */
  readonly segments: readonly TextSegment[];
  /** Whether the tokenizer shall add BOS: false where the template wrote it. */
  readonly addSpecial: boolean;
  /** Text that ends the answer in this model's convention, beside its end tokens. */
  readonly stop: readonly string[];
  /** Control tokens that are part of the answer's text here. */
  readonly printedTokens: ReadonlySet<number>;
  /** The forms a tool call may take if decoding is constrained and a call is allowed; empty otherwise. */
  readonly callForms: readonly SchemaForm[];
  /** Not all of the answer is text that a reader sees: there may be thoughts, and the marks of calls. */
  readonly hidesText: boolean;
  /** For one choice; `stops` are looked for in its text, which must not be held back where it completes one. */
  createParser(stops: readonly string[]): ChatParser;
}

export interface ChatService {
  render(model: ServedModel, conversation: ChatConversation, signal: AbortSignal): Promise<RenderedChat>;
}

export interface GrammarService {
  constraint(model: ServedModel, spec: GrammarSpec, signal: AbortSignal): Promise<TokenConstraint>;
}
