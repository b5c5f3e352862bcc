// Properties of a grammar's rules before they are compiled: whether they match any text, whether they can be empty,
// whether they are recursive, and their size.

import type { Expression } from "../expression.js";
import { partsOf, rulesIn } from "./expression-parts.js";

/** Rules up to this weight are inlined. */
export const INLINE_WEIGHT = 16;

/** What is known about the rules of a grammar before they are compiled. */
export interface RuleFacts {
  /** Whether any finite text matches. */
  ends(expression: Expression): boolean;
  /** Whether the empty text matches. */
  nullable(expression: Expression): boolean;
  /** Whether the rule can reach itself. */
  recursive(name: string): boolean;
  /** Number of references to the rule in all bodies. */
  uses(name: string): number;
  /** Approximate number of states of its body, inlined rules included. */
  weight(name: string): number;
}

/** Analyzes the rules of a grammar; `bodies` has the expression of each rule by name. */
export function ruleFacts(bodies: ReadonlyMap<string, Expression>): RuleFacts {
  const mentioned = new Map<string, readonly string[]>();
  const uses = new Map<string, number>();
  const users = new Map<string, string[]>();
  for (const [name, body] of bodies) {
    const names = [...rulesIn(body)];
    mentioned.set(name, names);
    for (const other of names) uses.set(other, (uses.get(other) ?? 0) + 1);
    for (const other of new Set(names)) {
      const known = users.get(other);
      if (known === undefined) users.set(other, [name]);
      else known.push(name);
    }
  }
  const ending = leastFixpoint(bodies, users, ends);
  const empty = leastFixpoint(bodies, users, isNullable);
  const { recursive, calleesFirst } = recursiveRules(mentioned);
  const weights = new Map<string, number>();
  for (const name of calleesFirst) {
    const inside = (mentioned.get(name) ?? []).reduce(
      (sum, other) => sum + Math.min(weights.get(other) ?? 1, INLINE_WEIGHT),
      0,
    );
    weights.set(name, inside + (bodies.has(name) ? weightOf(bodies.get(name) as Expression) : 0));
  }
  return {
    ends: (expression) => ends(expression, ending),
    nullable: (expression) => isNullable(expression, empty),
    recursive: (name) => recursive.has(name),
    uses: (name) => uses.get(name) ?? 0,
    weight: (name) => weights.get(name) ?? 1,
  };
}

/** Re-evaluates a rule only if one that it references has changed, because the order of definitions is arbitrary. */
function leastFixpoint(
  bodies: ReadonlyMap<string, Expression>,
  users: ReadonlyMap<string, readonly string[]>,
  holds: (expression: Expression, known: ReadonlySet<string>) => boolean,
): ReadonlySet<string> {
  const known = new Set<string>();
  let waiting: ReadonlySet<string> = new Set([...bodies.keys()].reverse());
  while (waiting.size > 0) {
    const next = new Set<string>();
    for (const name of waiting) {
      if (known.has(name) || !holds(bodies.get(name) as Expression, known)) continue;
      known.add(name);
      for (const user of users.get(name) ?? []) if (!known.has(user)) next.add(user);
    }
    waiting = next;
  }
  return known;
}

function ends(expression: Expression, ending: ReadonlySet<string>): boolean {
  switch (expression.kind) {
    case "rule":
      return ending.has(expression.name);
    case "sequence":
      return expression.parts.every((part) => ends(part, ending));
    case "choice":
      return expression.options.some((option) => ends(option, ending));
    case "repeat":
      return expression.min === 0 || ends(expression.part, ending);
    default:
      return true;
  }
}

function isNullable(expression: Expression, nullable: ReadonlySet<string>): boolean {
  switch (expression.kind) {
    case "text":
      return expression.text === "";
    case "set":
    case "control":
      return false;
    case "rule":
      return nullable.has(expression.name);
    case "sequence":
      return expression.parts.every((part) => isNullable(part, nullable));
    case "choice":
      return expression.options.some((option) => isNullable(option, nullable));
    case "repeat":
      return expression.min === 0 || isNullable(expression.part, nullable);
    case "automaton":
      return expression.dfa.accepts(0);
    case "measured":
      return expression.measured.dfa.accepts(0) && expression.measured.limits.min === 0;
    default:
      return expression satisfies never;
  }
}

/** Tarjan's algorithm with an explicit stack: chains of rules may be longer than the call stack is deep. */
function recursiveRules(mentioned: ReadonlyMap<string, readonly string[]>): {
  readonly recursive: ReadonlySet<string>;
  readonly calleesFirst: readonly string[];
} {
  const recursive = new Set<string>();
  const calleesFirst: string[] = [];
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const open: string[] = [];
  const isOpen = new Set<string>();
  for (const start of mentioned.keys()) {
    if (order.has(start)) continue;
    const path: { readonly name: string; next: number }[] = [];
    const enter = (name: string): void => {
      order.set(name, order.size);
      low.set(name, order.get(name) as number);
      open.push(name);
      isOpen.add(name);
      path.push({ name, next: 0 });
    };
    enter(start);
    for (let now = path.at(-1); now !== undefined; now = path.at(-1)) {
      const { name } = now;
      const target = mentioned.get(name)?.[now.next++];
      if (target === name) recursive.add(name);
      if (target !== undefined) {
        if (!order.has(target)) enter(target);
        else if (isOpen.has(target)) low.set(name, Math.min(low.get(name) as number, order.get(target) as number));
        continue;
      }
      path.pop();
      const parent = path.at(-1);
      if (parent !== undefined) low.set(parent.name, Math.min(low.get(parent.name) as number, low.get(name) as number));
      if (low.get(name) !== order.get(name)) continue;
      const component = open.splice(open.lastIndexOf(name));
      for (const member of component) {
        isOpen.delete(member);
        calleesFirst.push(member);
        if (component.length > 1) recursive.add(member);
      }
    }
  }
  return { recursive, calleesFirst };
}

const SET_WEIGHT = 4;

/** Approximate number of network states of an expression; references to rules count as one. */
export function weightOf(expression: Expression): number {
  switch (expression.kind) {
    case "text":
      return expression.text.length;
    case "set":
      return expression.set.ranges.length > 1 ? SET_WEIGHT : 1;
    case "automaton":
      return expression.dfa.size;
    case "measured":
      return expression.measured.dfa.size;
    case "repeat":
      return Math.max(1, expression.max === Infinity ? expression.min : expression.max) * weightOf(expression.part);
    default:
      return partsOf(expression).reduce((sum, part) => sum + weightOf(part), 1);
  }
}
