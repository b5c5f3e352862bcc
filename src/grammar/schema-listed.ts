// Values that a schema lists (enum, const), less the ones that its other keywords rule out: types, bounds, counts and
// names are looked up; what would take a reader of schemas is refused beside a value that it speaks of.

import { isPlainObject } from "../plain-object.js";
import { choice, type Expression, text } from "./expression.js";
import type { LengthLimit } from "./json-rules.js";
import { grammarInvalid } from "./limits.js";
import type { Bound, NumberBounds } from "./number-range.js";
import { countOf, listOf, namesOf, numberOf, objectOf, type TypeName, typesOf } from "./schema-keywords.js";
import type { SchemaObject } from "./schema-pointer.js";
import type { WorkBudget } from "./work-budget.js";

/** What they would have to be asked for every value of which type. */
const UNCOUNTED: Readonly<Record<string, TypeName>> = {
  pattern: "string", properties: "object", patternProperties: "object", additionalProperties: "object", items: "array", prefixItems: "array",
};

export function listedExpression(budget: WorkBudget, schema: SchemaObject, place: string): Expression {
  const values = listOf(schema, "enum", place) ?? [];
  budget.step(place, values.length);
  const types = "type" in schema ? typesOf(schema, place) : undefined;
  const closed = schema["additionalProperties"] === false && !("patternProperties" in schema);
  const fits = countedFit(schema, closed, place);
  const fitting = values.filter((value) => (types === undefined || types.some((type) => isOfType(value, type))) && fits(value));
  for (const [keyword, type] of Object.entries(UNCOUNTED)) {
    if (!(keyword in schema) || schema[keyword] === true || (closed && keyword === "additionalProperties")) continue;
    if (fitting.some((value) => isOfType(value, type) && (keyword !== "properties" || isDescribed(value as SchemaObject, schema, place)))) {
      throw grammarInvalid(`${place}.${keyword}`, `expected no "${keyword}" beside a list of values, found one; keep the list alone`);
    }
  }
  const texts = new Set(fitting.map((value) => JSON.stringify(value)));
  if (texts.has(undefined as never)) throw grammarInvalid(place, "expected values of JSON, found another");
  return choice(...Array.from(texts, text));
}

/** Whether the schema says more of one of its properties than that it may be there. */
function isDescribed(value: SchemaObject, schema: SchemaObject, place: string): boolean {
  const declared = objectOf(schema, "properties", place);
  return Object.keys(value).some((name) => Object.hasOwn(declared, name) && !(declared[name] === true || isEmptyObject(declared[name])));
}

function isEmptyObject(value: unknown): boolean {
  return isPlainObject(value) && Object.keys(value).length === 0;
}

/** Whether the bounds and counts allow a value, and its names where no others than the mentioned ones may be there. */
function countedFit(schema: SchemaObject, closed: boolean, place: string): (value: unknown) => boolean {
  const lengths = lengthsOf(schema, place);
  const bounds = numberBounds(schema, place);
  const items = countsOf(schema, "minItems", "maxItems", place);
  const properties = countsOf(schema, "minProperties", "maxProperties", place);
  const required = namesOf(schema, "required", place);
  const declared = objectOf(schema, "properties", place);
  return (value) => {
    if (typeof value === "string") return isBetween([...value].length, lengths);
    if (typeof value === "number") return insideBounds(value, bounds);
    if (Array.isArray(value)) return isBetween(value.length, items);
    if (isPlainObject(value)) {
      const names = Object.keys(value);
      const mentioned = !closed || names.every((name) => Object.hasOwn(declared, name));
      return mentioned && isBetween(names.length, properties) && required.every((name) => Object.hasOwn(value, name));
    }
    return true;
  };
}

function countsOf(schema: SchemaObject, least: string, most: string, place: string): LengthLimit {
  return { min: countOf(schema, least, place) ?? 0, max: countOf(schema, most, place) ?? Infinity };
}

function isBetween(count: number, { min, max }: LengthLimit): boolean {
  return count >= min && count <= max;
}

export function lengthsOf(schema: SchemaObject, place: string): LengthLimit {
  return countsOf(schema, "minLength", "maxLength", place);
}

export function numberBounds(schema: SchemaObject, place: string): NumberBounds {
  const bound = (inclusive: string, exclusive: string, tighter: (a: number, b: number) => boolean): Bound | undefined => {
    const [value, open] = [numberOf(schema, inclusive, place), numberOf(schema, exclusive, place)];
    if (open !== undefined && (value === undefined || !tighter(value, open))) return { value: open, exclusive: true };
    return value === undefined ? undefined : { value, exclusive: false };
  };
  return {
    min: bound("minimum", "exclusiveMinimum", (a, b) => a > b),
    max: bound("maximum", "exclusiveMaximum", (a, b) => a < b),
  };
}

function insideBounds(value: number, { min, max }: NumberBounds): boolean {
  const above = min === undefined || value > min.value || (value === min.value && !min.exclusive);
  return above && (max === undefined || value < max.value || (value === max.value && !max.exclusive));
}

function isOfType(value: unknown, type: TypeName): boolean {
  switch (type) {
    case "object":
      return isPlainObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}
