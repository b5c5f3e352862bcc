// The literal text of a form as expressions: plain text, and control tokens by their number.

import { type Expression, text } from "./expression.js";
import type { FormText } from "./grammar-spec.js";
import { grammarInvalid } from "./limits.js";

/** The parts of a form's literal text, one after another. */
export function formText(given: FormText, place: string): readonly Expression[] {
  if (typeof given === "string") return [text(given)];
  return (Array.isArray(given) ? (given as readonly unknown[]) : [undefined]).map((part): Expression => {
    if (typeof part === "string") return text(part);
    if (typeof part === "number") return { kind: "control", token: part };
    throw grammarInvalid(place, "expected a prefix and a suffix of text, found something else");
  });
}

/** Characters of literal text; a control token counts as one. */
export function literalCharacters(parts: readonly Expression[]): number {
  return parts.reduce((sum, part) => sum + (part.kind === "text" ? part.text.length : 1), 0);
}
