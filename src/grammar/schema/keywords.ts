// The keywords of JSON Schema. Supported keywords are followed exactly. Refused ones would change what is allowed, and
// a grammar cannot express them; the error names them. All others are annotations (title, default, examples, x-…)
// without effect, as the standard defines for unknown keywords.

import { isPlainObject } from "../../plain-object.js";
import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "../limits.js";
import { nameOf, type SchemaObject } from "./pointer.js";

/** The type names of JSON Schema; unlike the types of values, they include "integer". */
export const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"] as const;
/** A type name that the keyword `type` accepts. */
export type TypeName = (typeof TYPES)[number];

/** Accepted only if they have no effect; see `harmless`. */
const REFUSED = [
  "contains",
  "minContains",
  "maxContains",
  "unevaluatedItems",
  "$dynamicRef",
  "$recursiveRef",
  "disallow",
  "extends",
] as const;

/** The type that a keyword implies if the schema names none. */
const TYPE_OF_KEYWORD: Readonly<Record<string, TypeName>> = {
  properties: "object",
  required: "object",
  additionalProperties: "object",
  patternProperties: "object",
  minProperties: "object",
  maxProperties: "object",
  propertyNames: "object",
  items: "array",
  prefixItems: "array",
  minItems: "array",
  maxItems: "array",
  uniqueItems: "array",
  minLength: "string",
  maxLength: "string",
  patterns: "string",
  notStrings: "string",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
  divisors: "number",
  notNumbers: "number",
};

/** More items or properties than any context holds. */
const UNREACHABLE = 2 ** 20;

/** Rejects a schema with a keyword that restricts values but cannot be expressed by a grammar. */
export function checkKeywords(schema: SchemaObject, place: string): void {
  for (const keyword of REFUSED) {
    const value = schema[keyword];
    if (value === undefined || harmless(keyword, value, schema)) continue;
    throw grammarInvalid(
      `${place}.${keyword}`,
      `expected keywords that a grammar can follow, found "${keyword}"; leave it out, and check the answer for it`,
      {
        keyword,
      },
    );
  }
}

function harmless(keyword: (typeof REFUSED)[number], value: unknown, schema: SchemaObject): boolean {
  switch (keyword) {
    case "minContains":
    case "maxContains":
      return schema["contains"] === undefined;
    case "unevaluatedItems":
      // Items that no keyword mentions are never generated.
      return (
        value === true || (value === false && (schema["items"] !== undefined || schema["prefixItems"] !== undefined))
      );
    default:
      return false;
  }
}

/** The types that a schema in normal form allows: those it names, or those that its keywords imply, or all. */
export function typesOf(schema: SchemaObject, place: string): readonly TypeName[] {
  const named = namedTypes(schema, place);
  if (named !== undefined) return named;
  const meant = new Set(
    Object.keys(schema).flatMap((key) =>
      Object.hasOwn(TYPE_OF_KEYWORD, key) ? [TYPE_OF_KEYWORD[key] as TypeName] : [],
    ),
  );
  return meant.size === 0 ? TYPES.filter((type) => type !== "integer") : [...meant];
}

/** The types that the keyword `type` lists; undefined without this keyword. */
export function namedTypes(schema: SchemaObject, place: string): readonly TypeName[] | undefined {
  const { type } = schema;
  if (type === undefined) return undefined;
  const list: readonly unknown[] = Array.isArray(type) ? type : [type];
  const names = list.filter((name): name is TypeName => (TYPES as readonly unknown[]).includes(name));
  if (names.length !== list.length || names.length === 0) {
    throw grammarInvalid(
      `${place}.type`,
      `expected one of ${TYPES.join(", ")}, or a list of these, found ${nameOf(Array.isArray(type) ? list.find((name) => !names.includes(name as TypeName)) : type)}`,
    );
  }
  return names;
}

/** The value of a keyword that is a non-negative integer. */
export function keywordCount(schema: SchemaObject, keyword: string, place: string): number | undefined {
  const value = schema[keyword];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
  throw grammarInvalid(`${place}.${keyword}`, `expected a whole number from 0, found ${nameOf(value)}`);
}

/** The value of a keyword that has to be a finite number; undefined without this keyword. */
export function keywordNumber(schema: SchemaObject, keyword: string, place: string): number | undefined {
  const value = schema[keyword];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw grammarInvalid(`${place}.${keyword}`, `expected a number, found ${nameOf(value)}`);
}

/** The value of a keyword that has to be an object; empty without this keyword. */
export function objectOf(schema: SchemaObject, keyword: string, place: string): SchemaObject {
  const value = schema[keyword];
  if (value === undefined) return {};
  if (isPlainObject(value)) return value;
  throw grammarInvalid(`${place}.${keyword}`, `expected an object, found ${nameOf(value)}`);
}

/** The value of a keyword that has to be an array; undefined without this keyword. */
export function keywordList(schema: SchemaObject, keyword: string, place: string): readonly unknown[] | undefined {
  const value = schema[keyword];
  if (value === undefined || Array.isArray(value)) return value;
  throw grammarInvalid(`${place}.${keyword}`, `expected a list, found ${nameOf(value)}`);
}

/** A limit on repetitions; more than any context holds is unlimited. */
export function repetitionsOf(
  schema: SchemaObject,
  least: string,
  most: string,
  place: string,
): { readonly min: number; readonly max: number } {
  const min = keywordCount(schema, least, place) ?? 0;
  const asked = keywordCount(schema, most, place) ?? Infinity;
  const max = asked >= UNREACHABLE ? Infinity : asked;
  if ((max === Infinity ? min : max) > GRAMMAR_LIMITS.repetitions)
    throw grammarLimit(`${place}.${max === Infinity ? least : most}`, "repetitions", "repetitions");
  return { min, max };
}

/** The distinct property names that a keyword such as `required` lists; empty without this keyword. */
export function namesOf(schema: SchemaObject, keyword: string, place: string): readonly string[] {
  // `required: true` on a property is draft 3, and ignored.
  if (typeof schema[keyword] === "boolean") return [];
  const list = keywordList(schema, keyword, place) ?? [];
  const wrong = list.find((name) => typeof name !== "string");
  if (wrong !== undefined)
    throw grammarInvalid(`${place}.${keyword}`, `expected a list of names, found ${nameOf(wrong)} in it`);
  return [...new Set(list as readonly string[])];
}
