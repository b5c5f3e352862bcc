// Checks whether a listed value satisfies the other keywords of its plain schema in normal form.

import { isPlainObject } from "../../plain-object.js";
import type { Dfa } from "../automaton/dfa.js";
import type { LengthLimits } from "../automaton/measure.js";
import { isMultiple } from "./multiple-of.js";
import type { Bound, NumberBounds } from "./number-bounds.js";
import { keywordCount, keywordList, namedTypes, namesOf, keywordNumber, objectOf, type TypeName } from "./keywords.js";
import type { NumberDemands } from "./number.js";
import type { SchemaObject } from "./pointer.js";
import { type StringDemands, stringDfa } from "./string.js";
import { allPatterns } from "./string-language.js";

/** What checking a value needs to know about nested schemas. */
export interface ValueContext {
  /** Whether a value satisfies a nested schema. */
  satisfies(value: unknown, schema: unknown, place: string): boolean;
  /** The strings that satisfy a schema, inside their quotes. */
  strings(schema: unknown, place: string): Dfa;
}

/** Whether a value satisfies a plain schema. */
export function fitsPlain(context: ValueContext, value: unknown, schema: SchemaObject, place: string): boolean {
  const types = namedTypes(schema, place);
  if (types !== undefined && !types.some((type) => isOfType(value, type))) return false;
  const listed = keywordList(schema, "enum", place);
  if (listed !== undefined && !listed.some((entry) => sameValue(entry, value))) return false;
  if (typeof value === "string") return fitsString(value, schema, place);
  if (typeof value === "number") return fitsNumber(value, schema, place);
  if (Array.isArray(value)) return fitsArray(context, value, schema, place);
  return !isPlainObject(value) || fitsObject(context, value, schema, place);
}

function fitsString(value: string, schema: SchemaObject, place: string): boolean {
  if (!isBetween([...value].length, lengthsOf(schema, place))) return false;
  const { patterns = [], notStrings = [] } = schema as {
    readonly patterns?: readonly string[];
    readonly notStrings?: readonly StringDemands[];
  };
  const inside = textInQuotes(value);
  return (
    (patterns.length === 0 || allPatterns(patterns, place).matches(inside)) &&
    notStrings.every((demands) => !stringDfa(demands, place).matches(inside))
  );
}

function fitsNumber(value: number, schema: SchemaObject, place: string): boolean {
  const { divisors = [], notNumbers = [] } = schema as {
    readonly divisors?: readonly number[];
    readonly notNumbers?: readonly NumberDemands[];
  };
  const meets = ({ whole, bounds, divisors: by, listed }: NumberDemands): boolean =>
    (!whole || Number.isInteger(value)) &&
    insideBounds(value, bounds) &&
    by.every((divisor) => isMultiple(value, divisor)) &&
    (listed?.includes(value) ?? true);
  return meets({ whole: false, bounds: numberBounds(schema, place), divisors }) && !notNumbers.some(meets);
}

function fitsArray(context: ValueContext, value: readonly unknown[], schema: SchemaObject, place: string): boolean {
  if (!isBetween(value.length, countsOf(schema, "minItems", "maxItems", place))) return false;
  if (schema["uniqueItems"] === true && new Set(value.map(canonicalText)).size < value.length) return false;
  const fixed = keywordList(schema, "prefixItems", place) ?? [];
  return value.every((item, index) =>
    context.satisfies(item, index < fixed.length ? fixed[index] : (schema["items"] ?? true), place),
  );
}

function fitsObject(context: ValueContext, value: SchemaObject, schema: SchemaObject, place: string): boolean {
  const names = Object.keys(value);
  if (!isBetween(names.length, countsOf(schema, "minProperties", "maxProperties", place))) return false;
  if (!namesOf(schema, "required", place).every((name) => Object.hasOwn(value, name))) return false;
  const declared = objectOf(schema, "properties", place);
  const patterns = Object.entries(objectOf(schema, "patternProperties", place)).map(([pattern, inner]) => ({
    names: allPatterns([pattern], place),
    inner,
  }));
  const allowed = schema["propertyNames"] === undefined ? undefined : context.strings(schema["propertyNames"], place);
  return names.every((name) => {
    const inside = textInQuotes(name);
    const schemas = [
      ...(Object.hasOwn(declared, name) ? [declared[name]] : []),
      ...patterns.filter((pattern) => pattern.names.matches(inside)).map(({ inner }) => inner),
    ];
    if (schemas.length === 0) schemas.push(schema["additionalProperties"] ?? true);
    return (allowed?.matches(inside) ?? true) && schemas.every((inner) => context.satisfies(value[name], inner, place));
  });
}

/** The bytes of a JSON string between its quotes, with escapes. */
export function textInQuotes(value: string): Uint8Array {
  return Buffer.from(JSON.stringify(value).slice(1, -1), "utf8");
}

/** A pair of limits such as `minItems` and `maxItems`; without these keywords, from 0 to Infinity. */
export function countsOf(schema: SchemaObject, least: string, most: string, place: string): LengthLimits {
  return { min: keywordCount(schema, least, place) ?? 0, max: keywordCount(schema, most, place) ?? Infinity };
}

function isBetween(count: number, { min, max }: LengthLimits): boolean {
  return count >= min && count <= max;
}

/** More characters than any context holds. */
const UNREACHABLE_LENGTH = 2 ** 20;

/** The limits of `minLength` and `maxLength`; a maximum that no context can reach counts as none. */
export function lengthsOf(schema: SchemaObject, place: string): LengthLimits {
  const { min, max } = countsOf(schema, "minLength", "maxLength", place);
  return { min, max: max >= UNREACHABLE_LENGTH && min < UNREACHABLE_LENGTH ? Infinity : max };
}

/** The tighter of the inclusive and exclusive bounds, at each end. */
export function numberBounds(schema: SchemaObject, place: string): NumberBounds {
  const bound = (
    inclusive: string,
    exclusive: string,
    tighter: (a: number, b: number) => boolean,
  ): Bound | undefined => {
    const [value, open] = [keywordNumber(schema, inclusive, place), keywordNumber(schema, exclusive, place)];
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

/** Whether a value has a type of JSON Schema; 1.0 is an integer. */
export function isOfType(value: unknown, type: TypeName): boolean {
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

function sameValue(one: unknown, other: unknown): boolean {
  return (
    one === other ||
    (typeof one === "object" && typeof other === "object" && canonicalText(one) === canonicalText(other))
  );
}

/** A text that is the same for equal values, whatever the order of their properties. */
export function canonicalText(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    isPlainObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}
