// The narrowest view of a model that completing needs: the engine's model, the library's and a test's fake all fit it.
// The other files of this layer take the engine's types from here, so that it depends on the engine in one place.

import type { ChatTemplates } from "../chat/template/chat-templates.js";
import type { Completion, CompletionRequest } from "../engine/serving.js";
import type { HeaderBytes } from "../gguf/header-bytes.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";

export type {
  ChoiceSummary,
  CompletionDelta,
  CompletionSummary,
  DeltaPart,
  TokenConstraint,
  TokenLogprob,
} from "../engine/serving.js";

/** A model that completes prompts. */
export interface CompletionModel {
  readonly name: string;
  readonly tokenizer: Tokenizer;
  /** Positions of one sequence: the prompt and the generated tokens together. */
  readonly contextTokens: number;
  /** Number of logits, which may exceed the number of the tokenizer's tokens. */
  readonly vocabularySize: number;
  readonly chatTemplates: ChatTemplates;
  /** Whether prefixes are reused only up to positions at which the model keeps its states; false by default. */
  readonly keepsCheckpoints?: boolean;
  /** The header of the model's file, from which a worker thread makes the same tokenizer; absent if there is no file. */
  readHeader?(): Promise<HeaderBytes>;
  /** Starts a completion; its iteration rejects with SERVING_QUEUE_FULL if too many requests are queued. */
  complete(request: CompletionRequest): Completion;
}
