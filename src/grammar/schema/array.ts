// Arrays of a schema: items at fixed positions, then further ones of one kind. Items that no keyword mentions are
// generated only if none is mentioned at all.

import { choice, type Expression, NOTHING, repeat, sequence, text } from "../expression.js";
import { grammarInvalid } from "../limits.js";
import { distinctItems } from "./unique-items.js";
import type { SchemaContext } from "./schema-grammar.js";
import { keywordList, repetitionsOf } from "./keywords.js";
import type { SchemaObject } from "./pointer.js";

/** The JSON arrays that satisfy `items`, `prefixItems`, `minItems`, `maxItems` and `uniqueItems` of a plain schema. */
export function arrayExpression(context: SchemaContext, schema: SchemaObject, place: string): Expression {
  const { json } = context;
  const { min, max } = repetitionsOf(schema, "minItems", "maxItems", place);
  if (min > max) return NOTHING;
  const fixed = keywordList(schema, "prefixItems", place) ?? [];
  const others = schema["items"];
  if (schema["uniqueItems"] === true && max > 1) return distinctItems(context, schema, { min, max }, place);
  if (others === undefined && fixed.length > 0 && min > fixed.length) {
    throw grammarInvalid(
      `${place}.items`,
      `expected "items" to say what comes behind the ${fixed.length} items that have places, since there have to be ${min}, found none`,
    );
  }
  json.budget.step(place, fixed.length);
  const item =
    others === undefined && fixed.length > 0
      ? NOTHING
      : context.expression(others === undefined ? true : others, `${place}.items`);
  if (fixed.length === 0) return item === NOTHING ? json.arrayOf(NOTHING, min, 0) : json.arrayOf(item, min, max);

  const open = sequence(text("["), json.space);
  const close = sequence(json.space, text("]"));
  const comma = sequence(text(","), json.space);
  const count = Math.min(fixed.length, max);
  const left = max - count;
  let rest: Expression = closing(min - count, item === NOTHING ? 0 : left);
  for (let index = count - 1; index >= 0; index--) {
    const value = context.expression(fixed[index], `${place}.prefixItems[${index}]`);
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
