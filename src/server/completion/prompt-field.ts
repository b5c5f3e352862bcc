// Prompts and inputs as the API takes them: text, tokens, or a list of either.
// Checked by hand: a list of a hundred thousand tokens must not be tried against every member of a union.

import { z } from "zod";
import type { CompletionModel } from "../../completion/completion-model.js";
import { checkCharacters, checkPromptTokens, checkPromptTexts, refuseRequest } from "../../completion/request-check.js";
import type { ServerContext } from "./route-context.js";

/** A prompt as text or tokens. */
export type RequestPrompt = string | readonly number[];
/** One or more prompts. */
type PromptField = RequestPrompt | readonly string[] | readonly (readonly number[])[];

const LARGEST_TOKEN = 2 ** 31 - 1;

/** The schema of a field with up to `most` prompts. */
export function promptField(most: number) {
  return z
    .custom<PromptField>(isPrompt, `expected text, tokens, or a list of up to ${most} of either, none of them empty`)
    .refine(
      (value) => typeof value === "string" || typeof value[0] === "number" || value.length <= most,
      `expected at most ${most} prompts, found more`,
    )
    .meta({
      anyOf: [
        { type: "string" },
        { type: "array", items: { type: "string" }, maxItems: most },
        { type: "array", items: { type: "integer" } },
        { type: "array", items: { type: "array", items: { type: "integer" } }, maxItems: most },
      ],
    });
}

function isPrompt(value: unknown): boolean {
  if (typeof value === "string") return true;
  if (!Array.isArray(value) || value.length === 0) return false;
  const list: readonly unknown[] = value;
  if (typeof list[0] === "string") return list.every((text) => typeof text === "string");
  return typeof list[0] === "number" ? isTokens(list) : list.every(isTokens);
}

function isTokens(value: unknown): boolean {
  return isTokenList(value) && value.length > 0;
}

/** Whether a value is a list of token ids, of any vocabulary. */
export function isTokenList(value: unknown): value is readonly number[] {
  return (
    Array.isArray(value) && value.every((token) => Number.isInteger(token) && token >= 0 && token <= LARGEST_TOKEN)
  );
}

/** The prompts of a field as a list. */
export function promptsOf(field: PromptField): readonly RequestPrompt[] {
  if (typeof field === "string" || typeof field[0] === "number") return [field as RequestPrompt];
  return field as readonly RequestPrompt[];
}

/** Refuses prompts whose texts are too long together. */
export function checkPromptCharacters(prompts: readonly RequestPrompt[], most: number, field: string): void {
  checkCharacters(
    prompts.filter((prompt) => typeof prompt === "string"),
    most,
    field,
  );
}

/** The prompts of a request, and how they are tokenized. */
interface RequestedPrompts {
  readonly prompts: readonly RequestPrompt[];
  /** The request field that they came in. */
  readonly field: string;
  /** Tokens of the context that are kept for generation after each prompt. */
  readonly reservedTokens: number;
  /** Whether the text of special tokens becomes these tokens. */
  readonly parseSpecial: boolean;
}

/** Prompts as tokens, each checked against the context length. */
export async function tokensOf(
  { tokenization, options: { limits } }: ServerContext,
  model: CompletionModel,
  { prompts, field, reservedTokens, parseSpecial }: RequestedPrompts,
  signal: AbortSignal,
): Promise<readonly Int32Array[]> {
  const texts = prompts.filter((prompt) => typeof prompt === "string").map((text) => [{ text, parseSpecial }]);
  checkPromptTexts(limits, model, { texts, field }, reservedTokens);
  for (const tokens of prompts)
    if (typeof tokens !== "string") checkPromptTokens(limits, model, { tokens, field }, reservedTokens);
  const call = { kind: "encode", texts, addSpecial: true } as const;
  const encoded = (texts.length === 0 ? [] : await tokenization.run(model, call, signal)).values();
  const lists = prompts.map((prompt) =>
    typeof prompt === "string" ? (encoded.next().value as Int32Array) : tokenList(model, prompt, field),
  );
  for (const tokens of lists) checkPromptTokens(limits, model, { tokens, field }, reservedTokens);
  return lists;
}

/** Token ids as the engine takes them; refuses ids that are not in the vocabulary. */
export function tokenList(model: CompletionModel, prompt: readonly number[], field: string): Int32Array {
  const last = model.vocabularySize - 1;
  for (const token of prompt) if (token > last) refuseRequest(field, `token ids from 0 to ${last}`, String(token));
  return new Int32Array(prompt);
}
