// Control tokens in the forms of tool calls. They have no text, so a grammar over bytes represents them by a byte that
// UTF-8 never contains, followed by the token's number.

import type { FormSeries, FormText, GrammarSpec, SchemaForm, ValueNotation } from "./grammar-spec.js";
import { GRAMMAR_LIMITS } from "./limits.js";
import type { VocabularyTokenizer } from "./automaton/packed-vocabulary.js";

/** A byte that UTF-8 never contains. */
export const CONTROL_BYTE = 0xff;

/** The bytes that represent a control token in a grammar. */
export function controlBytes(token: number): Uint8Array {
  return Uint8Array.of(CONTROL_BYTE, token >>> 16, token >>> 8, token);
}

/** The forms with their texts split into plain text and control tokens, as the tokenizer finds them. */
export function withControlTokens(tokenizer: VocabularyTokenizer, spec: GrammarSpec): GrammarSpec {
  if (spec.kind === "thought") return splitThought(tokenizer, spec);
  if (spec.kind !== "forms" || !areForms(spec.forms) || !(spec.series === undefined || areForms(spec.series.forms)))
    return spec;
  return {
    kind: "forms",
    forms: spec.forms.map((form) => {
      const split = splitForm(tokenizer, form);
      return { ...split, suffix: withoutEnd(tokenizer, split.suffix) };
    }),
    ...(spec.series === undefined ? {} : { series: splitSeries(tokenizer, spec.series) }),
  };
}

function splitThought(
  tokenizer: VocabularyTokenizer,
  { kind, open, close, rest }: GrammarSpec & { readonly kind: "thought" },
): GrammarSpec {
  const split = (text: FormText): FormText => (typeof text === "string" ? splitText(tokenizer, text) : text);
  return {
    kind,
    ...(open === undefined ? {} : { open: split(open) }),
    close: split(close),
    rest: withControlTokens(tokenizer, rest),
  };
}

function areForms(forms: unknown): boolean {
  return Array.isArray(forms) && forms.every(isForm);
}

function splitForm(tokenizer: VocabularyTokenizer, { prefix, schema, suffix, notation }: SchemaForm) {
  return {
    prefix: splitText(tokenizer, prefix as string),
    schema,
    suffix: splitText(tokenizer, suffix as string),
    ...(notation === undefined ? {} : { notation: splitNotation(tokenizer, notation) }),
  };
}

function splitSeries(tokenizer: VocabularyTokenizer, { open, forms, separator, close }: FormSeries): FormSeries {
  const split = (text: FormText): readonly (string | number)[] =>
    typeof text === "string" ? splitText(tokenizer, text) : text;
  return {
    open: split(open),
    forms: forms.map((form) => splitForm(tokenizer, form)),
    separator: split(separator),
    close: withoutEnd(tokenizer, split(close)),
  };
}

function splitNotation(tokenizer: VocabularyTokenizer, notation: ValueNotation): ValueNotation {
  const split = (text: FormText): FormText => (typeof text === "string" ? splitText(tokenizer, text) : text);
  switch (notation.kind) {
    case "fields": {
      const { open, text, json, close } = notation;
      return { kind: "fields", open: split(open), text: split(text), json: split(json), close: split(close) };
    }
    case "map":
      return { kind: "map", quote: split(notation.quote) };
    case "python":
      return notation;
    default:
      // An unknown notation is refused when the grammar is compiled.
      notation satisfies never;
      return notation;
  }
}

function isForm(form: unknown): form is SchemaForm {
  const { prefix, suffix } = (form ?? {}) as Partial<SchemaForm>;
  // Texts beyond the limit are refused later; their tokens are not needed.
  return (
    typeof prefix === "string" &&
    typeof suffix === "string" &&
    prefix.length + suffix.length <= GRAMMAR_LIMITS.literalCharacters
  );
}

function splitText(tokenizer: VocabularyTokenizer, text: string): readonly (string | number)[] {
  if (text === "") return [];
  const parts: (string | number)[] = [];
  let rest = text;
  for (const token of tokenizer.encode(text, { addSpecial: false, parseSpecial: true })) {
    if (tokenizer.tokenBytes(token).length > 0) continue;
    const shown = Buffer.from(tokenizer.tokenBytes(token, true)).toString("utf8");
    const place = shown === "" ? -1 : rest.indexOf(shown);
    if (place === -1) continue;
    if (place > 0) parts.push(rest.slice(0, place));
    parts.push(token);
    rest = rest.slice(place + shown.length);
  }
  return rest === "" ? parts : [...parts, rest];
}

/** Removes what follows an end-of-generation token, which ends the form. */
function withoutEnd(tokenizer: VocabularyTokenizer, parts: readonly (string | number)[]): readonly (string | number)[] {
  const last = parts.findLastIndex((part) => typeof part === "string" || !tokenizer.endOfGeneration.has(part));
  return parts.slice(0, last + 1);
}
