// Converts an expression without recursion to a JavaScript RegExp, so that tests can match it without our automata.

import type { CharSet } from "../char-set.js";
import type { Expression } from "../expression.js";

/** The RegExp that matches the same whole texts as an expression; references to rules are not supported. */
export function expressionPattern(expression: Expression): RegExp {
  return new RegExp(`^(?:${pattern(expression)})$`, "u");
}

function pattern(expression: Expression): string {
  switch (expression.kind) {
    case "text":
      return [...expression.text].map((character) => code(character.codePointAt(0) as number)).join("");
    case "set":
      return classOf(expression.set);
    case "rule":
      throw new Error(`rule ${expression.name} in an expression that should have none`);
    case "sequence":
      return expression.parts.map(pattern).join("");
    case "choice":
      return expression.options.length === 0 ? "(?!)" : `(?:${expression.options.map(pattern).join("|")})`;
    case "repeat":
      return `(?:${pattern(expression.part)}){${expression.min},${expression.max === Infinity ? "" : expression.max}}`;
    case "control":
    case "automaton":
    case "measured":
      throw new Error("an automaton in an expression that should have none");
    default:
      return expression satisfies never;
  }
}

function classOf({ ranges }: CharSet): string {
  return `[${ranges.map(({ from, to }) => `${code(from)}-${code(to)}`).join("")}]`;
}

function code(point: number): string {
  return `\\u{${point.toString(16)}}`;
}
