// Arrays of a schema: the items that stand at fixed places, then others of one kind. Items that no keyword mentions are
// written only where none is mentioned at all.

import { choice, type Expression, NOTHING, repeat, sequence, text } from "./expression.js";
import { GRAMMAR_LIMITS, grammarLimit } from "./limits.js";
import type { SchemaContext } from "./schema-grammar.js";
import { countOf, listOf } from "./schema-keywords.js";
import type { SchemaObject } from "./schema-pointer.js";

/** No context holds so many items: more is as good as no limit. */
const UNREACHABLE = 2 ** 20;

export function arrayExpression(context: SchemaContext, schema: SchemaObject, place: string): Expression {
  const { json } = context;
  const min = countOf(schema, "minItems", place) ?? 0;
  const asked = countOf(schema, "maxItems", place) ?? Infinity;
  const max = asked >= UNREACHABLE ? Infinity : asked;
  if (min > max) return NOTHING;
  if ((max === Infinity ? min : max) > GRAMMAR_LIMITS.repetitions) throw grammarLimit(`${place}.${max === Infinity ? "minItems" : "maxItems"}`, "repetitions", "items");
  // Up to draft 2019-09 the places are a list in "items", and the others in "additionalItems".
  const old = Array.isArray(schema["items"]);
  const fixed = (old ? listOf(schema, "items", place) : listOf(schema, "prefixItems", place)) ?? [];
  const others = old ? schema["additionalItems"] : schema["items"];
  const item = others === undefined && fixed.length > 0 ? NOTHING : context.expression(others ?? true, `${place}.items`);
  if (fixed.length === 0) return item === NOTHING ? json.arrayOf(NOTHING, min, 0) : json.arrayOf(item, min, max);

  const open = sequence(text("["), json.space);
  const close = sequence(json.space, text("]"));
  const comma = sequence(text(","), json.space);
  const count = Math.min(fixed.length, max);
  const left = max - count;
  let rest: Expression = closing(min - count, item === NOTHING ? 0 : left);
  for (let index = count - 1; index >= 0; index--) {
    const value = context.expression(fixed[index], `${place}.${old ? "items" : "prefixItems"}[${index}]`);
    const next = sequence(index === 0 ? open : comma, value, rest);
    const end = index === 0 ? sequence(open, text("]")) : close;
    rest = json.rules.add("item", index >= min ? choice(next, end) : next);
  }
  return count === 0 ? sequence(open, text("]")) : rest;

  function closing(least: number, most: number): Expression {
    if (least > most) return NOTHING;
    if (most === 0) return close;
    return sequence(repeat(sequence(comma, item), Math.max(0, least), most), close);
  }
}
