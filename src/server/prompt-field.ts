// Prompts and inputs as the API takes them: text, tokens, or a list of either.
// Judged by hand: a list of a hundred thousand tokens must not be tried against every member of a union.

import { z } from "zod";
import type { ServedModel } from "../engine/serving.js";
import { encodePrompt } from "./completion-run.js";
import { totalCharacters } from "./fields.js";
import { refuseField } from "./request-error.js";

export type Prompt = string | readonly number[];
export type PromptField = Prompt | readonly string[] | readonly (readonly number[])[];

const LARGEST_TOKEN = 2 ** 31 - 1;

export function promptField(most: number) {
  return z
    .custom<PromptField>(isPrompt, `expected text, tokens, or a list of up to ${most} of either, none of them empty`)
    .refine((value) => typeof value === "string" || typeof value[0] === "number" || value.length <= most, `expected at most ${most} prompts, found more`)
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

/** Of whatever vocabulary. */
export function isTokenList(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((token) => Number.isInteger(token) && token >= 0 && token <= LARGEST_TOKEN);
}

export function promptsOf(field: PromptField): readonly Prompt[] {
  if (typeof field === "string" || typeof field[0] === "number") return [field as Prompt];
  return field as readonly Prompt[];
}

export function checkCharacters(prompts: readonly Prompt[], most: number, param: string): void {
  totalCharacters(
    prompts.filter((prompt) => typeof prompt === "string"),
    most,
    param,
  );
}

/** `parseSpecial`: whether the text of special tokens in a text becomes these. */
export function tokensOf(model: ServedModel, prompt: Prompt, param: string, parseSpecial = true): Int32Array {
  if (typeof prompt === "string") return encodePrompt(model, [{ text: prompt, parseSpecial }], true);
  const last = model.vocabularySize - 1;
  for (const token of prompt) if (token > last) refuseField(param, `token ids from 0 to ${last}`, String(token));
  return Int32Array.from(prompt);
}
