// The named rules of one grammar, parsed from a schema, a regular expression or a grammar, before it is compiled.

import type { Expression } from "./expression.js";

/** The rule with which a GBNF grammar starts. */
export const ROOT = "root";

type RuleReference = Expression & { readonly kind: "rule" };

/** The rules of one grammar. */
export class GrammarRules {
  readonly #bodies = new Map<string, Expression>();
  #next = 0;

  get bodies(): ReadonlyMap<string, Expression> {
    return this.#bodies;
  }

  /** Reserves the name of a rule that may refer to itself; `define` sets its body. */
  reserve(hint: string): RuleReference {
    return { kind: "rule", name: `${hint}${this.#next++}` };
  }

  define(rule: { readonly name: string }, body: Expression): void {
    this.#bodies.set(rule.name, body);
  }

  add(hint: string, body: Expression): Expression {
    const rule = this.reserve(hint);
    this.define(rule, body);
    return rule;
  }
}
