// What a chat needs besides the engine: rendering by the model's template, and constraints from compiled grammars.
// src/chat and src/grammar implement these interfaces; tests use fakes. Both may run in worker threads, so both return
// promises and take an AbortSignal; they fail with a ChatError, a GrammarError, or SERVING_QUEUE_FULL.

import type { RenderedChat } from "../chat/chat-format.js";
import type { ChatConversation } from "../chat/message.js";
import type { GrammarSpec } from "../grammar/grammar-spec.js";
import type { CompletionModel, TokenConstraint } from "./completion-model.js";

/** Renders conversations to prompts with the chat template of a model. */
export interface ChatRenderService {
  /** Renders one conversation; rejects with the signal's reason if it is aborted. */
  render(model: CompletionModel, conversation: ChatConversation, signal?: AbortSignal): Promise<RenderedChat>;
}

/** Compiles grammars for the vocabulary of a model. */
export interface GrammarService {
  /** A constraint for one completion, which the caller disposes. */
  constraint(model: CompletionModel, spec: GrammarSpec, signal?: AbortSignal): Promise<TokenConstraint>;
}
