// Objects of a schema: the mentioned properties in its order, each present or absent, then others. The rules know which
// property comes next and, as far as limits require it, how many have been written.

import { choice, type Expression, NOTHING, repeat, sequence, text } from "../expression.js";
import { grammarInvalid } from "../limits.js";
import { otherProperties } from "./other-properties.js";
import type { SchemaContext } from "./schema-grammar.js";
import { namesOf, objectOf, repetitionsOf } from "./keywords.js";
import type { SchemaObject } from "./pointer.js";

interface Property {
  readonly pair: Expression;
  readonly required: boolean;
}

interface Counts {
  readonly min: number;
  readonly max: number;
}

/**
 * The JSON objects that satisfy a plain schema; properties are generated in the order in which the schema declares
 * them.
 */
export function objectExpression(context: SchemaContext, schema: SchemaObject, place: string): Expression {
  const { json } = context;
  const declared = objectOf(schema, "properties", place);
  const required = new Set(namesOf(schema, "required", place));
  // A required name that is not mentioned is an additional property that must be present.
  const names = [...new Set([...Object.keys(declared), ...required])];
  json.budget.step(place, names.length);
  const others = otherProperties(context, schema, names, place);
  const properties: Property[] = [];
  for (const name of names) {
    const value = others.valueOf(name);
    const needed = required.has(name);
    if (value !== NOTHING) properties.push({ pair: json.pair(json.key(name), value), required: needed });
    else if (needed) return NOTHING;
  }
  const counts = repetitionsOf(schema, "minProperties", "maxProperties", place);
  const least = properties.filter((property) => property.required).length;
  if (least > counts.max) return NOTHING;
  const reached = properties.length + (others.pair === NOTHING ? 0 : 1);
  if (counts.min > reached) {
    if (others.pair === NOTHING) return NOTHING;
    // A repeated name counts once, so a grammar can guarantee only one additional property.
    throw grammarInvalid(
      `${place}.minProperties`,
      `expected ${reached} at most, one more than there are names, found ${counts.min}; name the properties`,
    );
  }
  return sequence(text("{"), json.space, members(context, properties, others.pair, counts, place));
}

/** The rules of the properties, from last to first, for every number of written properties that makes a difference. */
function members(
  { json }: SchemaContext,
  properties: readonly Property[],
  extra: Expression,
  { min, max }: Counts,
  place: string,
): Expression {
  const { rules, space } = json;
  const comma = sequence(text(","), space);
  const close = text("}");
  const counted = max < properties.length || (extra !== NOTHING && max !== Infinity);
  // Without a relevant maximum, counts matter only up to the minimum, and whether there is any property yet.
  const last = counted ? Math.min(max, properties.length) : Math.max(1, min);
  const next = (count: number): number => Math.min(count + 1, last);
  const separated = (count: number, pair: Expression): Expression => (count === 0 ? pair : sequence(comma, pair));
  json.budget.step(place, (properties.length + 1) * last);
  let ends: readonly Expression[] = Array.from({ length: last + 1 }, (_, count) => {
    const end = count === 0 ? close : sequence(space, close);
    const room = max - count;
    const more =
      extra === NOTHING || room < 1 || count + 1 < min
        ? NOTHING
        : sequence(separated(count, extra), repeat(sequence(comma, extra), 0, room - 1), space, close);
    return choice(...(count >= min ? [end] : []), ...(more === NOTHING ? [] : [more]));
  });
  for (const { pair, required } of [...properties].reverse()) {
    ends = ends.map((skipped, count) => {
      const taken =
        counted && count >= max ? NOTHING : sequence(separated(count, pair), ends[next(count)] as Expression);
      if (required) return taken === NOTHING ? NOTHING : rules.add("members", taken);
      return taken === NOTHING ? skipped : rules.add("members", choice(taken, skipped));
    });
  }
  return ends[0] as Expression;
}
