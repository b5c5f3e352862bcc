// Checks of a request that need the model: lengths against the context, token ids against the vocabulary.
// Invariant: every error names the field at fault in `details.field` and at the start of its message, `[field] …`, so that
// an API with other names for its fields can put its own there.

import { ContextError, ServingError } from "../errors.js";
import type { SamplerOptions } from "../sampler/options.js";
import { charactersIn } from "../tokenizer/tokenizer-call.js";
import type { TextSegment } from "../tokenizer/tokenizer.js";
import type { CompletionModel } from "./completion-model.js";
import type { CompletionLimits } from "./limits.js";

/** Refuses the value of a field. */
export function refuseRequest(field: string, expected: string, found: string): never {
  throw new ServingError("SERVING_REQUEST", `[${field}] expected ${expected}, found ${found}`, {
    details: { field, expected, found },
  });
}

/** Prompts as text, each in segments, and the request field that they came in. */
interface PromptTexts {
  readonly texts: readonly (readonly TextSegment[])[];
  readonly field: string;
}

/** A prompt as tokens, and the request field that it came in. */
interface PromptTokens {
  readonly tokens: { readonly length: number };
  readonly field: string;
}

type ModelContext = Pick<CompletionModel, "tokenizer" | "contextTokens">;

/** Refuses texts that are too long together. */
export function checkCharacters(texts: Iterable<string>, most: number, field: string): void {
  let characters = 0;
  for (const text of texts) characters += text.length;
  if (characters > most) refuseRequest(field, `at most ${most} characters of text`, String(characters));
}

/**
 * Refuses a prompt that exceeds the context length whatever its tokens are, before it is tokenized. `reservedTokens` of the
 * context are kept for generated tokens.
 */
export function checkPromptTexts(
  limits: CompletionLimits,
  model: ModelContext,
  { texts, field }: PromptTexts,
  reservedTokens: number,
): void {
  const most = maxPromptTokens(limits, model, reservedTokens);
  for (const segments of texts) {
    const characters = charactersIn(segments);
    if (characters > most * model.tokenizer.longestTokenBytes)
      throw tooLong(
        field,
        `at most ${most} tokens, found ${characters} characters, which are more than these can have`,
      );
  }
}

/** Refuses a prompt that is empty or exceeds the context length. */
export function checkPromptTokens(
  limits: CompletionLimits,
  model: ModelContext,
  { tokens, field }: PromptTokens,
  reservedTokens: number,
): void {
  const most = maxPromptTokens(limits, model, reservedTokens);
  if (tokens.length === 0) refuseRequest(field, "at least one token", "none");
  if (tokens.length > most) throw tooLong(field, `at most ${most} tokens, found ${tokens.length}`);
}

/** Refuses biases of tokens that the model does not have: token ids belong to one vocabulary. */
export function checkLogitBias({ logitBias }: Partial<SamplerOptions>, vocabularySize: number): void {
  for (const id of logitBias?.keys() ?? []) {
    if (id >= vocabularySize) refuseRequest("logitBias", `token ids from 0 to ${vocabularySize - 1}`, String(id));
  }
}

function maxPromptTokens(
  { promptTokens }: CompletionLimits,
  { contextTokens }: ModelContext,
  reservedTokens: number,
): number {
  return Math.min(promptTokens, contextTokens - reservedTokens);
}

function tooLong(field: string, expectation: string): ContextError {
  return new ContextError("CONTEXT_OVERFLOW", `[${field}] expected ${expectation}; shorten it`, { details: { field } });
}
