// Control tokens in the forms of tool calls. They add no text, so that a grammar over bytes needs another name for them: a
// byte that is in no UTF-8, and the token's number behind it.

import type { GrammarSpec, SchemaForm } from "./grammar-spec.js";
import { GRAMMAR_LIMITS } from "./limits.js";
import type { VocabularyTokenizer } from "./automaton/packed-vocabulary.js";

/** In no UTF-8 at all. */
export const CONTROL_BYTE = 0xff;

/** How a control token is told to a grammar. */
export function controlBytes(token: number): Uint8Array {
  return Uint8Array.of(CONTROL_BYTE, token >>> 16, token >>> 8, token);
}

/** Texts of forms with the control tokens in them told apart, as a tokenizer finds them. */
export function withControlTokens(tokenizer: VocabularyTokenizer, spec: GrammarSpec): GrammarSpec {
  if (spec.kind !== "forms" || !Array.isArray(spec.forms) || !spec.forms.every(isForm)) return spec;
  return {
    kind: "forms",
    forms: spec.forms.map(({ prefix, schema, suffix }) => ({
      prefix: splitText(tokenizer, prefix as string),
      schema,
      suffix: withoutEnd(tokenizer, splitText(tokenizer, suffix as string)),
    })),
  };
}

function isForm(form: unknown): form is SchemaForm {
  const { prefix, suffix } = (form ?? {}) as Partial<SchemaForm>;
  // Texts beyond the limit are refused later on; nobody reads their tokens before.
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

/** A token that ends a text ends the form, too. */
function withoutEnd(tokenizer: VocabularyTokenizer, parts: readonly (string | number)[]): readonly (string | number)[] {
  const last = parts.findLastIndex((part) => typeof part === "string" || !tokenizer.endOfGeneration.has(part));
  return parts.slice(0, last + 1);
}
