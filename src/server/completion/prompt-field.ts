// Prompts and inputs as the API takes them: text, tokens, or a list of either.
// Judged by hand: a list of a hundred thousand tokens must not be tried against every member of a union.

import { z } from "zod";
import type { ServedModel } from "../../engine/serving.js";
import { checkPrompt, checkTexts, encodePrompts } from "./completion-run.js";
import type { ServerContext } from "./route-context.js";
import { totalCharacters } from "../schema/fields.js";
import { refuseField } from "../http/request-error.js";
import type { Work } from "../http/request-tracker.js";

export type Prompt = string | readonly number[];
export type PromptField = Prompt | readonly string[] | readonly (readonly number[])[];

const LARGEST_TOKEN = 2 ** 31 - 1;

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

/** Of whatever vocabulary. */
export function isTokenList(value: unknown): value is readonly number[] {
  return (
    Array.isArray(value) && value.every((token) => Number.isInteger(token) && token >= 0 && token <= LARGEST_TOKEN)
  );
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

export interface AskedPrompts {
  readonly prompts: readonly Prompt[];
  /** The field they came in. */
  readonly param: string;
  /** So many tokens at least are to be written after each. */
  readonly room: number;
  /** Whether the text of special tokens in a text becomes these. */
  readonly parseSpecial: boolean;
}

/** Prompts as tokens, each checked. */
export async function tokensOf(
  context: ServerContext,
  work: Work,
  model: ServedModel,
  { prompts, param, room, parseSpecial }: AskedPrompts,
): Promise<readonly Int32Array[]> {
  const texts = prompts.filter((prompt) => typeof prompt === "string").map((text) => [{ text, parseSpecial }]);
  checkTexts(context, model, { texts, param }, room);
  for (const prompt of prompts)
    if (typeof prompt !== "string") checkPrompt(context, model, { tokens: prompt, param }, room);
  const encoded = (await encodePrompts(context, work, model, { texts, addSpecial: true, param })).values();
  const tokens = prompts.map((prompt) =>
    typeof prompt === "string" ? (encoded.next().value as Int32Array) : tokenList(model, prompt, param),
  );
  for (const own of tokens) checkPrompt(context, model, { tokens: own, param }, room);
  return tokens;
}

export function tokenList(model: ServedModel, prompt: readonly number[], param: string): Int32Array {
  const last = model.vocabularySize - 1;
  for (const token of prompt) if (token > last) refuseField(param, `token ids from 0 to ${last}`, String(token));
  return new Int32Array(prompt);
}
