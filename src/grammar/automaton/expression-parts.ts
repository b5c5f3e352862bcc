// Traversal of expressions.

import type { Expression } from "../expression.js";

/** The direct subexpressions of an expression; a reference to a rule has none. */
export function partsOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case "sequence":
      return expression.parts;
    case "choice":
      return expression.options;
    case "repeat":
      return [expression.part];
    default:
      return [];
  }
}

/** The names of the rules that an expression mentions, with repetitions. */
export function* rulesIn(expression: Expression): Generator<string, void, undefined> {
  if (expression.kind === "rule") yield expression.name;
  for (const part of partsOf(expression)) yield* rulesIn(part);
}
