// Control tokens around a form: they add no text, so that no grammar of text allows them, and are forced instead, where
// the text before and behind a schema begins and ends with theirs.

import type { GrammarSpec, SchemaForm } from "./grammar-spec.js";
import { GRAMMAR_LIMITS } from "./limits.js";
import type { VocabularyTokenizer } from "./packed-vocabulary.js";

export interface ForcedTokens {
  readonly head: readonly number[];
  readonly tail: readonly number[];
}

const NONE: ForcedTokens = { head: [], tail: [] };

/** Taken out of the forms only where all of them agree; otherwise they are spelled as text. */
export function splitForced(tokenizer: VocabularyTokenizer, spec: GrammarSpec): { readonly spec: GrammarSpec; readonly forced: ForcedTokens } {
  if (spec.kind !== "forms" || !Array.isArray(spec.forms) || !spec.forms.every(isForm)) return { spec, forced: NONE };
  const [first, ...others] = spec.forms.map((form) => splitForm(tokenizer, form));
  if (first === undefined || !others.every(({ forced }) => sameTokens(forced, first.forced))) return { spec, forced: NONE };
  return { spec: { kind: "forms", forms: [first, ...others].map(({ form }) => form) }, forced: first.forced };
}

function isForm(form: unknown): form is SchemaForm {
  const { prefix, suffix } = (form ?? {}) as Partial<SchemaForm>;
  // Texts beyond the limit are refused later on; nobody reads their tokens before.
  return typeof prefix === "string" && typeof suffix === "string" && prefix.length + suffix.length <= GRAMMAR_LIMITS.literalCharacters;
}

function splitForm(tokenizer: VocabularyTokenizer, form: SchemaForm): { readonly form: SchemaForm; readonly forced: ForcedTokens } {
  const head: number[] = [];
  const tail: number[] = [];
  let { prefix, suffix } = form;
  for (;;) {
    const control = controlToken(tokenizer, prefix, 0);
    if (control === undefined || !prefix.startsWith(control.text)) break;
    head.push(control.token);
    prefix = prefix.slice(control.text.length);
  }
  for (;;) {
    const control = controlToken(tokenizer, suffix, -1);
    if (control === undefined || !suffix.endsWith(control.text)) break;
    tail.unshift(control.token);
    suffix = suffix.slice(0, -control.text.length);
  }
  return { form: { ...form, prefix, suffix }, forced: { head, tail } };
}

function controlToken(tokenizer: VocabularyTokenizer, text: string, place: 0 | -1): { readonly token: number; readonly text: string } | undefined {
  if (text === "") return undefined;
  const token = tokenizer.encode(text, { addSpecial: false, parseSpecial: true }).at(place);
  if (token === undefined || tokenizer.tokenBytes(token).length > 0) return undefined;
  const shown = Buffer.from(tokenizer.tokenBytes(token, true)).toString("utf8");
  return shown === "" ? undefined : { token, text: shown };
}

function sameTokens(left: ForcedTokens, right: ForcedTokens): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
