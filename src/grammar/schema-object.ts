// Objects of a schema: the properties it mentions in its order, each there or not, and others behind them. Two chains of
// rules, one for "nothing is written yet" and one for "a comma comes first", keep this as long as the list of properties.

import { CharSet } from "./char-set.js";
import { choice, type Expression, NOTHING, repeat, sequence, set, text } from "./expression.js";
import { grammarInvalid } from "./limits.js";
import { regexExpression } from "./regex.js";
import type { SchemaContext } from "./schema-grammar.js";
import { countOf, namesOf, objectOf } from "./schema-keywords.js";
import type { SchemaObject } from "./schema-pointer.js";

interface Property {
  readonly pair: Expression;
  readonly required: boolean;
}

export function objectExpression(context: SchemaContext, schema: SchemaObject, place: string): Expression {
  const { json } = context;
  const declared = objectOf(schema, "properties", place);
  const required = namesOf(schema, "required", place);
  const extra = extraPair(context, schema, place);
  const properties: Property[] = [];
  // A name that is required and not mentioned is an additional one that has to be there.
  for (const name of [...Object.keys(declared), ...required.filter((needed) => !Object.hasOwn(declared, needed))]) {
    const own = Object.hasOwn(declared, name);
    const value = own ? context.expression(declared[name], `${place}.properties.${name}`) : extra.value;
    const needed = required.includes(name);
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

/** What a property looks like that is not mentioned, and its value alone. */
function extraPair(context: SchemaContext, schema: SchemaObject, place: string): { readonly pair: Expression; readonly value: Expression } {
  const { json } = context;
  const declared = Object.keys(objectOf(schema, "properties", place));
  const patterns = Object.entries(objectOf(schema, "patternProperties", place));
  const given = schema["additionalProperties"] ?? schema["unevaluatedProperties"];
  const closed = given === undefined && (declared.length > 0 || patterns.length > 0);
  const value = closed ? NOTHING : context.expression(given ?? true, `${place}.additionalProperties`);
  if (patterns.length > 0) {
    const [[pattern, inside]] = patterns as [[string, unknown]];
    const inner = `${place}.patternProperties`;
    if (patterns.length > 1 || declared.length > 0 || value !== NOTHING) {
      throw grammarInvalid(inner, 'expected one pattern, no "properties" and "additionalProperties" false beside it, found more; name the properties');
    }
    const characters = (values: CharSet): Expression => json.inString(values);
    const key = regexExpression(pattern, { place: inner, characters, around: repeat(characters(CharSet.all), 0, Infinity) });
    const matching = context.expression(inside, `${inner}.${pattern}`);
    return { pair: matching === NOTHING ? NOTHING : json.pair(sequence(text('"'), key, text('"')), matching), value: NOTHING };
  }
  if (value === NOTHING) return { pair: NOTHING, value };
  const names = [...declared, ...namesOf(schema, "required", place)];
  return { pair: json.pair(names.length === 0 ? json.string : otherNames(context, names), value), value: given === undefined ? json.value : value };
}

/** A string that is none of these names. Without escapes, with which a name could be spelled another way. */
function otherNames({ json }: SchemaContext, names: readonly string[]): Expression {
  const { rules } = json;
  const plain = CharSet.all.minus(CharSet.of([0, 0x1f])).minus(CharSet.ofText('"\\'));
  const free = rules.reserve("name");
  rules.define(free, choice(text('"'), sequence(set(plain), free)));
  const after = (endings: readonly string[]): Expression => {
    const heads = new Map<string, string[]>();
    for (const [head, ...tail] of endings.filter((ending) => ending !== "").map((ending) => [...ending])) {
      const tails = heads.get(head as string);
      if (tails === undefined) heads.set(head as string, [tail.join("")]);
      else tails.push(tail.join(""));
    }
    const others = plain.minus(CharSet.ofText([...heads.keys()].join("")));
    return rules.add("name", choice(
      ...(endings.includes("") ? [] : [text('"')]),
      sequence(set(others), free),
      ...[...heads].filter(([head]) => plain.contains(CharSet.ofText(head))).map(([head, tails]) => sequence(text(head), after(tails))),
    ));
  };
  return sequence(text('"'), after([...new Set(names)]));
}

/** The same name twice counts once, so that a grammar can promise one property, or what is required, and no more. */
function propertyCounts(schema: SchemaObject, properties: readonly Property[], open: boolean, place: string): { readonly min: number; readonly max: number } {
  const min = countOf(schema, "minProperties", place) ?? 0;
  const max = countOf(schema, "maxProperties", place) ?? Infinity;
  const needed = properties.filter(({ required }) => required).length;
  if (min > Math.max(1, needed)) throw grammarInvalid(`${place}.minProperties`, `expected 1 at most, or as many as are required, found ${min}`);
  const most = open ? Infinity : properties.length;
  if (max < most && properties.length > 0) {
    throw grammarInvalid(`${place}.maxProperties`, `expected as many as there are properties, or no "properties" beside it, found ${max}`);
  }
  return { min: min > needed ? 1 : 0, max };
}
