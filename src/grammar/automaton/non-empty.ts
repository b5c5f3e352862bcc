// The non-empty texts of an expression. Repetitions count only rounds that consume something, so that a count never
// advances by itself.

import { choice, type Expression, NOTHING, repeat, sequence } from "../expression.js";
import type { RuleFacts } from "./rule-facts.js";

/** Undefined if the expression contains rules or automata. */
export function nonEmpty(expression: Expression, facts: RuleFacts): Expression | undefined {
  if (!facts.nullable(expression)) return expression;
  switch (expression.kind) {
    case "text":
      return NOTHING;
    case "sequence":
      return nonEmptySequence(expression.parts, facts);
    case "choice": {
      const options = expression.options.map((option) => nonEmpty(option, facts));
      return options.includes(undefined) ? undefined : choice(...(options as readonly Expression[]));
    }
    case "repeat": {
      const part = nonEmpty(expression.part, facts);
      return part === undefined ? undefined : repeat(part, 1, expression.max);
    }
    default:
      return undefined;
  }
}

/** The first part that is not empty, with empty parts before it and any parts after it. */
function nonEmptySequence(parts: readonly Expression[], facts: RuleFacts): Expression | undefined {
  const options: Expression[] = [];
  for (const [index, part] of parts.entries()) {
    const some = nonEmpty(part, facts);
    if (some === undefined) return undefined;
    options.push(sequence(some, ...parts.slice(index + 1)));
    if (!facts.nullable(part)) break;
  }
  return choice(...options);
}
