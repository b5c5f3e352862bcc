// Objects of a schema: the properties it mentions in its order, each there or not, and others behind them. Two chains of
// rules, one for "nothing is written yet" and one for "a comma comes first", keep this as long as the list of properties.

import { choice, type Expression, NOTHING, repeat, sequence, text } from "./expression.js";
import { grammarInvalid } from "./limits.js";
import { otherNames } from "./other-names.js";
import type { SchemaContext } from "./schema-grammar.js";
import { namesOf, objectOf, repetitionsOf } from "./schema-keywords.js";
import type { SchemaObject } from "./schema-pointer.js";

interface Property {
  readonly pair: Expression;
  readonly required: boolean;
}

export function objectExpression(context: SchemaContext, schema: SchemaObject, place: string): Expression {
  const { json } = context;
  const declared = objectOf(schema, "properties", place);
  const required = new Set(namesOf(schema, "required", place));
  const extra = extraPair(context, schema, place);
  const properties: Property[] = [];
  // A name that is required and not mentioned is an additional one that has to be there.
  const names = new Set([...Object.keys(declared), ...required]);
  json.budget.step(place, names.size);
  for (const name of names) {
    const own = Object.hasOwn(declared, name);
    const value = own ? context.expression(declared[name], `${place}.properties.${name}`) : extra.value;
    const needed = required.has(name);
    if (value === NOTHING) {
      if (needed) return NOTHING;
      continue;
    }
    properties.push({ pair: json.pair(text(JSON.stringify(name)), value), required: needed });
  }
  const counts = propertyCounts(schema, properties, extra.pair !== NOTHING, place);
  if (properties.length === 0 && extra.pair !== NOTHING) return map(context, extra.pair, counts);
  return sequence(text("{"), json.space, chain(context, properties, extra.pair, counts.min > 0));
}

/** Any number of pairs of one kind. */
function map({ json }: SchemaContext, pair: Expression, { min, max }: { readonly min: number; readonly max: number }): Expression {
  const open = sequence(text("{"), json.space);
  const none = min === 0 ? [sequence(open, text("}"))] : [];
  if (max === 0) return choice(...none);
  const next = sequence(text(","), json.space, pair);
  if (max !== Infinity) return choice(...none, sequence(open, pair, repeat(next, 0, max - 1), json.space, text("}")));
  const rest = json.rules.reserve("members");
  json.rules.define(rest, choice(sequence(next, rest), sequence(json.space, text("}"))));
  return choice(...none, sequence(open, pair, rest));
}

function chain({ json }: SchemaContext, properties: readonly Property[], extra: Expression, oneAtLeast: boolean): Expression {
  const { rules, space } = json;
  const comma = sequence(text(","), space);
  const last = rules.reserve("members");
  const end = sequence(space, text("}"));
  rules.define(last, extra === NOTHING ? end : choice(sequence(comma, extra, last), end));
  let afterOne: Expression = extra === NOTHING ? end : last;
  let atStart: Expression = choice(...(oneAtLeast ? [] : [text("}")]), ...(extra === NOTHING ? [] : [sequence(extra, last)]));
  for (const { pair, required } of [...properties].reverse()) {
    const first = sequence(pair, afterOne);
    atStart = required ? first : rules.add("first", choice(first, atStart));
    const next = sequence(comma, pair, afterOne);
    afterOne = required ? next : rules.add("next", choice(next, afterOne));
    // One rule holds a run of required properties; a long one is cut, so that nothing grows with its square.
    if (required) afterOne = rules.add("next", afterOne);
  }
  return atStart;
}

/** What a property looks like that is not mentioned, and the value alone of one that has to be there. */
function extraPair(context: SchemaContext, schema: SchemaObject, place: string): { readonly pair: Expression; readonly value: Expression } {
  const { json } = context;
  const declared = Object.keys(objectOf(schema, "properties", place));
  const required = namesOf(schema, "required", place);
  const patterns = Object.entries(objectOf(schema, "patternProperties", place));
  const given = schema["additionalProperties"];
  const value = context.expression(given === undefined ? true : given, `${place}.additionalProperties`);
  const closed = value === NOTHING || (given === undefined && (declared.length > 0 || patterns.length > 0));
  if (patterns.length > 0) {
    const [[pattern, inside]] = patterns as [[string, unknown]];
    const inner = `${place}.patternProperties`;
    if (patterns.length > 1 || declared.length + required.length > 0 || !closed) {
      throw grammarInvalid(inner, 'expected one pattern, no "properties", no "required" and "additionalProperties" false beside it, found more; name the properties');
    }
    const matching = context.expression(inside, `${inner}.${pattern}`);
    return { pair: matching === NOTHING ? NOTHING : json.pair(json.matching(pattern, inner), matching), value: NOTHING };
  }
  if (closed) return { pair: NOTHING, value };
  const names = [...new Set([...declared, ...required])];
  return { pair: json.pair(names.length === 0 ? json.string : otherNames(json, names, place), value), value };
}

/** The same name twice counts once, so that a grammar can promise one property, or what is required, and no more. */
function propertyCounts(schema: SchemaObject, properties: readonly Property[], open: boolean, place: string): { readonly min: number; readonly max: number } {
  const { min, max } = repetitionsOf(schema, "minProperties", "maxProperties", place);
  const needed = properties.filter(({ required }) => required).length;
  if (min > Math.max(1, needed)) throw grammarInvalid(`${place}.minProperties`, `expected 1 at most, or as many as are required, found ${min}`);
  const most = open ? Infinity : properties.length;
  if (max < most && properties.length > 0) {
    throw grammarInvalid(`${place}.maxProperties`, `expected as many as there are properties, or no "properties" beside it, found ${max}`);
  }
  return { min: min > needed ? 1 : 0, max };
}
