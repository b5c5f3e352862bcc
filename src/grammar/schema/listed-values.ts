// Values that a schema lists (enum, const), except those that its other keywords exclude.

import { choice, type Expression } from "../expression.js";
import { grammarInvalid } from "../limits.js";
import { keywordList } from "./keywords.js";
import type { SchemaObject } from "./pointer.js";
import type { SchemaContext } from "./schema-grammar.js";
import { canonicalText, fitsPlain, type ValueContext } from "./value.js";

/** The values of `enum` that satisfy the other keywords of the same schema, without duplicates. */
export function listedValues(context: ValueContext, schema: SchemaObject, place: string): readonly unknown[] {
  const distinct = new Map((keywordList(schema, "enum", place) ?? []).map((value) => [canonicalText(value), value]));
  if (distinct.has(undefined as never)) throw grammarInvalid(place, "expected values of JSON, found another");
  const { enum: _, ...rest } = schema;
  return Object.keys(rest).length === 0
    ? [...distinct.values()]
    : [...distinct.values()].filter((value) => fitsPlain(context, value, rest, place));
}

/** The listed values; objects and arrays are written without white space. */
export function listedExpression(context: SchemaContext, schema: SchemaObject, place: string): Expression {
  return choice(...listedValues(context, schema, place).map((value) => context.json.literal(value)));
}
