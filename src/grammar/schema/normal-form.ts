// Normalizes the keywords of one schema about its own value, so that merging need not distinguish drafts. Annotations
// are dropped; malformed keywords are refused here, before anything relies on them.

import { grammarInvalid } from "../limits.js";
import { checkKeywords, keywordCount, keywordList, namedTypes, namesOf, keywordNumber, objectOf } from "./keywords.js";
import { nameOf, type SchemaObject } from "./pointer.js";
import { STRING_FORMATS, type StringFormat } from "./string-formats.js";

const COUNTS = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"] as const;
const AS_THEY_ARE = ["additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames"] as const;

/**
 * Drops keywords that are null, which some generators write for absent ones. As `const` it is a value; as `type` it is
 * probably a "null" without quotes, and refused like other invalid types.
 */
export function withoutNulls(schema: SchemaObject): SchemaObject {
  const entries = Object.entries(schema);
  const said = entries.filter(([keyword, value]) => value !== null || keyword === "const" || keyword === "type");
  return said.length === entries.length ? schema : Object.fromEntries(said);
}

/**
 * The normal form of a schema: `const` is a list of one, draft 4 bounds are marked as exclusive, `nullable` is a type,
 * items at fixed positions are `prefixItems` and the others `items`, `pattern` and `format` are the list `patterns`,
 * `multipleOf` is the list `divisors`: several of them may have to hold together.
 */
export function normalSchema(schema: SchemaObject, place: string): SchemaObject {
  checkKeywords(schema, place);
  const normal: Record<string, unknown> = {};
  const keep = (keyword: string, value: unknown): void => {
    if (value !== undefined) normal[keyword] = value;
  };
  keep("type", types(schema, place));
  keep("enum", values(schema, place));
  for (const keyword of ["properties", "patternProperties"] as const)
    if (schema[keyword] !== undefined) keep(keyword, objectOf(schema, keyword, place));
  const required = namesOf(schema, "required", place);
  if (required.length > 0) keep("required", required);
  for (const keyword of COUNTS) keep(keyword, keywordCount(schema, keyword, place));
  for (const keyword of AS_THEY_ARE) keep(keyword, schema[keyword]);
  addBound(normal, schema, "minimum", "exclusiveMinimum", place);
  addBound(normal, schema, "maximum", "exclusiveMaximum", place);
  addItems(normal, schema, place);
  keep("patterns", patterns(schema, place));
  keep("format", schema["format"]);
  const longest = Math.min(
    formatOf(schema)?.maxLength ?? Infinity,
    (normal["maxLength"] as number | undefined) ?? Infinity,
  );
  if (longest !== Infinity) normal["maxLength"] = longest;
  keep("divisors", divisors(schema, place));
  if (schema["uniqueItems"] === true) normal["uniqueItems"] = true;
  return normal;
}

/** The patterns of a schema. An unknown format is an annotation that only implies a string. */
function patterns(schema: SchemaObject, place: string): readonly string[] | undefined {
  const { pattern, format } = schema;
  if (pattern !== undefined && typeof pattern !== "string")
    throw grammarInvalid(`${place}.pattern`, `expected a regular expression, found ${nameOf(pattern)}`);
  if (pattern === undefined && format === undefined) return undefined;
  const known = formatOf(schema);
  return [...(pattern === undefined ? [] : [pattern]), ...(known === undefined ? [] : [known.pattern])];
}

function formatOf({ format }: SchemaObject): StringFormat | undefined {
  return typeof format === "string" && Object.hasOwn(STRING_FORMATS, format) ? STRING_FORMATS[format] : undefined;
}

function divisors(schema: SchemaObject, place: string): readonly number[] | undefined {
  const divisor = keywordNumber(schema, "multipleOf", place);
  if (divisor === undefined) return undefined;
  if (divisor <= 0) throw grammarInvalid(`${place}.multipleOf`, `expected a number above 0, found ${divisor}`);
  return [divisor];
}

function types(schema: SchemaObject, place: string): readonly string[] | undefined {
  const named = namedTypes(schema, place);
  return named === undefined || schema["nullable"] !== true || named.includes("null") ? named : [...named, "null"];
}

function values(schema: SchemaObject, place: string): readonly unknown[] | undefined {
  const listed = keywordList(schema, "enum", place);
  if (!("const" in schema)) return listed;
  const value = schema["const"];
  const text = JSON.stringify(value);
  return listed === undefined || listed.some((entry) => JSON.stringify(entry) === text) ? [value] : [];
}

function addBound(
  normal: Record<string, unknown>,
  schema: SchemaObject,
  inclusive: string,
  exclusive: string,
  place: string,
): void {
  const value = keywordNumber(schema, inclusive, place);
  // In draft 4 the exclusive keyword is a boolean that modifies the other.
  const draft4 = typeof schema[exclusive] === "boolean";
  const open = draft4 ? (schema[exclusive] === true ? value : undefined) : keywordNumber(schema, exclusive, place);
  if (open !== undefined) normal[exclusive] = open;
  if (value !== undefined && !(draft4 && open !== undefined)) normal[inclusive] = value;
}

/** Up to draft 2019-09, "items" lists the fixed positions, and "additionalItems" the others. */
function addItems(normal: Record<string, unknown>, schema: SchemaObject, place: string): void {
  const old = Array.isArray(schema["items"]);
  const fixed = keywordList(schema, old ? "items" : "prefixItems", place);
  const others = old ? schema["additionalItems"] : schema["items"];
  if (fixed !== undefined && fixed.length > 0) normal["prefixItems"] = fixed;
  if (others !== undefined) normal["items"] = others;
  // An empty list implies an array, without restricting its items.
  else if (fixed?.length === 0) normal["items"] = true;
}
