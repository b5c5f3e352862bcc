// Objects with a field for each property, in place of JSON's braces: the arguments of a tool call in tags, or Python's
// keyword arguments. Fields are in the order of the schema; only properties that it mentions are generated.

import { choice, EMPTY, type Expression, NOTHING, sequence, text } from "../expression.js";
import { namesOf, objectOf, repetitionsOf, type TypeName, typesOf } from "./keywords.js";
import { listedValues } from "./listed-values.js";
import type { PlainSchema } from "./merge.js";
import type { SchemaObject } from "./pointer.js";
import { rawString } from "./raw-string.js";
import type { SchemaContext } from "./schema-grammar.js";
import type { StringDemands } from "./string.js";
import { allPatterns } from "./string-language.js";
import { textInQuotes } from "./value.js";

/** How fields are written. */
export interface FieldStyle {
  readonly open: readonly Expression[];
  /**
   * Between the key and a string that is written as it is; undefined if strings are written like other values, between
   * quotes.
   */
  readonly text: readonly Expression[] | undefined;
  /** Between the key and another value. */
  readonly json: readonly Expression[];
  readonly close: readonly Expression[];
  /** The text that ends a string, and that it cannot contain; undefined if a control token ends it. */
  readonly mark: string | undefined;
  readonly separator: string;
}

/** What fields need of the grammar of their schema. */
export interface FieldContext extends SchemaContext {
  /** The alternatives of a schema, each without combining keywords. */
  alternatives(schema: unknown, place: string): readonly PlainSchema[];
  /** The values of one type. */
  typed(type: TypeName, plain: PlainSchema): Expression;
  stringDemands(plain: PlainSchema): StringDemands;
}

interface Field {
  readonly expression: Expression;
  readonly required: boolean;
}

/** The objects that satisfy a plain schema, as fields. */
export function fieldsExpression(
  context: FieldContext,
  schema: SchemaObject,
  style: FieldStyle,
  place: string,
): Expression {
  const { json } = context;
  const declared = objectOf(schema, "properties", place);
  const required = new Set(namesOf(schema, "required", place));
  const names = [...new Set([...Object.keys(declared), ...required])];
  json.budget.step(place, names.length + 1);
  const counts = repetitionsOf(schema, "minProperties", "maxProperties", place);
  if (required.size > counts.max || names.length < counts.min) return NOTHING;
  // A grammar may allow less than its schema: beyond a maximum only what is required, and a minimum of the first ones.
  const taken = names.length > counts.max ? names.filter((name) => required.has(name)) : names;
  const fields: Field[] = [];
  for (const [index, name] of taken.entries()) {
    const isRequired = required.has(name) || index < counts.min;
    const expression = fieldExpression(context, name, { schema, place }, style);
    if (expression !== NOTHING) fields.push({ expression, required: isRequired });
    else if (isRequired) return NOTHING;
  }
  return separated(context, fields, style.separator);
}

/** From the last field to the first, each with what follows: behind nothing, and behind another field. */
function separated({ json }: FieldContext, fields: readonly Field[], separator: string): Expression {
  let [first, next]: readonly [Expression, Expression] = [EMPTY, EMPTY];
  for (const { expression, required } of [...fields].reverse()) {
    const [behindNothing, behindAnother] = [sequence(expression, next), sequence(text(separator), expression, next)];
    [first, next] = [
      json.rules.add("fields", required ? behindNothing : choice(behindNothing, first)),
      json.rules.add("fields", required ? behindAnother : choice(behindAnother, next)),
    ];
  }
  return first;
}

function fieldExpression(
  context: FieldContext,
  name: string,
  { schema, place }: PlainSchema,
  style: FieldStyle,
): Expression {
  const where = `${place}.properties.${name}`;
  const allowed = schemasOf(context, name, { schema, place });
  if (allowed === undefined) return NOTHING;
  const value: unknown = allowed.length === 1 ? allowed[0] : { allOf: allowed };
  const fieldOf = (between: readonly Expression[], inside: Expression): Expression =>
    inside === NOTHING ? NOTHING : sequence(...style.open, text(name), ...between, inside, ...style.close);
  if (style.text === undefined) return fieldOf(style.json, context.expression(value, where));
  const plain = context.alternatives(value, where);
  return choice(
    ...[
      fieldOf(style.text, choice(...plain.flatMap((one) => textsOf(context, one, style)))),
      fieldOf(style.json, choice(...plain.flatMap((one) => othersOf(context, one)))),
    ].filter((field) => field !== NOTHING),
  );
}

/** The schemas of the value under a name; undefined if the name is not allowed. */
function schemasOf(
  context: FieldContext,
  name: string,
  { schema, place }: PlainSchema,
): readonly unknown[] | undefined {
  const bytes = textInQuotes(name);
  const { propertyNames } = schema;
  if (propertyNames !== undefined && !context.strings(propertyNames, `${place}.propertyNames`).matches(bytes))
    return undefined;
  const declared = objectOf(schema, "properties", place);
  const matching = Object.entries(objectOf(schema, "patternProperties", place))
    .filter(([pattern]) => allPatterns([pattern], `${place}.patternProperties`).matches(bytes))
    .map(([, inner]) => inner);
  const own = [...(Object.hasOwn(declared, name) ? [declared[name]] : []), ...matching];
  return own.length > 0 ? own : [schema["additionalProperties"] ?? true];
}

/** The strings of a schema, as they are. */
function textsOf(context: FieldContext, plain: PlainSchema, { mark }: FieldStyle): readonly Expression[] {
  const { schema, place } = plain;
  if ("enum" in schema)
    return listedValues(context, schema, place).flatMap((value) =>
      typeof value === "string" && (mark === undefined || !value.includes(mark)) ? [text(value)] : [],
    );
  if (!typesOf(schema, place).includes("string")) return [];
  const demands = context.stringDemands(plain);
  const { patterns, limits, excluded = [] } = demands;
  // Most strings are any text, for which one rule is enough.
  if (patterns.length + excluded.length === 0 && limits.min === 0 && limits.max === Infinity)
    return [context.json.once("raw", mark ?? "", () => rawString(mark, demands, place))];
  const inside = rawString(mark, demands, place);
  return inside === NOTHING ? [] : [inside];
}

/** The values of a schema that are no strings, as JSON. */
function othersOf(context: FieldContext, plain: PlainSchema): readonly Expression[] {
  const { schema, place } = plain;
  if ("enum" in schema)
    return listedValues(context, schema, place).flatMap((value) =>
      typeof value === "string" ? [] : [context.json.literal(value)],
    );
  return typesOf(schema, place).flatMap((type) => {
    const value = type === "string" ? NOTHING : context.typed(type, plain);
    return value === NOTHING ? [] : [value];
  });
}
