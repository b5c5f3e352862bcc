// Merges two plain schemas in normal form into one that holds if both hold. A keyword of only one of them is kept;
// properties and items that only one of them mentions are additional ones of the other.

import { grammarInvalid } from "../limits.js";
import { namedTypes, type TypeName } from "./keywords.js";
import type { SchemaObject } from "./pointer.js";

type Combine = (left: unknown, right: unknown, place: string) => unknown;

const largest: Combine = (left, right) => Math.max(left as number, right as number);
const smallest: Combine = (left, right) => Math.min(left as number, right as number);
const union: Combine = (left, right) => [
  ...new Set([...(left as readonly unknown[]), ...(right as readonly unknown[])]),
];
const same =
  (keyword: string): Combine =>
  (left, right, place) => {
    if (left === right || JSON.stringify(left) === JSON.stringify(right)) return left;
    throw grammarInvalid(`${place}.${keyword}`, `expected one "${keyword}" at most for one value, found several`);
  };

const COMBINERS: Readonly<Record<string, Combine>> = {
  type: (left, right, place) =>
    commonTypes(namedTypes({ type: left }, place) ?? [], namedTypes({ type: right }, place) ?? []),
  enum: (left, right) => {
    if (left === right) return left;
    const texts = new Set((right as readonly unknown[]).map((value) => JSON.stringify(value)));
    return (left as readonly unknown[]).filter((value) => texts.has(JSON.stringify(value)));
  },
  required: (left, right) => [...new Set([...(left as readonly unknown[]), ...(right as readonly unknown[])])],
  minimum: largest,
  exclusiveMinimum: largest,
  maximum: smallest,
  exclusiveMaximum: smallest,
  minLength: largest,
  maxLength: smallest,
  minItems: largest,
  maxItems: smallest,
  minProperties: largest,
  maxProperties: smallest,
  additionalProperties: both,
  items: both,
  propertyNames: both,
  format: (left) => left,
  patterns: union,
  divisors: union,
  notStrings: union,
  notNumbers: union,
  uniqueItems: () => true,
};
/** Keywords that depend on what the other schema says about names and positions that it does not mention. */
const APART = new Set(["properties", "patternProperties", "prefixItems"]);

/** The merged schema; undefined if no value satisfies both. */
export function mergedSchema(one: SchemaObject, other: SchemaObject, place: string): SchemaObject | undefined {
  const result: Record<string, unknown> = {};
  for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
    if (APART.has(key)) continue;
    const combine = COMBINERS[key] as Combine;
    result[key] =
      key in one && key in other ? combine(one[key], other[key], place) : key in one ? one[key] : other[key];
  }
  if ((result["type"] as readonly TypeName[] | undefined)?.length === 0) return undefined;
  const parts = {
    properties: mergedProperties(one, other),
    patternProperties: mergedPatterns(one, other, place),
    prefixItems: mergedPlaces(one, other),
  };
  for (const [keyword, value] of Object.entries(parts)) if (value !== undefined) result[keyword] = value;
  return result;
}

/** Comparing this many characters of text costs as much as visiting one keyword. */
const TEXT_CHARACTERS = 8;

/** The cost of merging a schema: names, positions and keywords, and the texts that are compared. */
export function mergeWeight(schema: SchemaObject): number {
  const {
    properties,
    required,
    enum: values,
    prefixItems,
    patternProperties,
  } = schema as Readonly<Record<string, object | undefined>>;
  const characters = [values, patternProperties].reduce(
    (sum, compared) => sum + (compared === undefined ? 0 : JSON.stringify(compared).length),
    0,
  );
  const inside = [required, values, prefixItems].reduce(
    (sum, list) => sum + ((list as readonly unknown[] | undefined)?.length ?? 0),
    0,
  );
  return (
    1 +
    Object.keys(schema).length +
    inside +
    Math.ceil(characters / TEXT_CHARACTERS) +
    (properties === undefined ? 0 : Object.keys(properties).length)
  );
}

/** A schema that holds if two hold; undefined allows everything. */
function both(left: unknown, right: unknown): unknown {
  if (left === undefined || right === undefined) return left ?? right;
  if (left === true || left === right) return right;
  if (right === true) return left;
  return left === false || right === false ? false : together(left, right);
}

/** The members of merged schemas, so that recursion ends, however a schema that refers to itself was merged. */
const members = new WeakMap<object, ReadonlySet<object>>();
const numbers = new WeakMap<object, number>();
const known = new Map<string, SchemaObject>();
const MAX_KNOWN = 10_000;
let lastNumber = 0;

function together(left: unknown, right: unknown): unknown {
  if (typeof left !== "object" || left === null || typeof right !== "object" || right === null)
    return { allOf: [left, right] };
  const all = new Set([...(members.get(left) ?? [left]), ...(members.get(right) ?? [right])]);
  const key = Array.from(all, keywordNumber)
    .sort((a, b) => a - b)
    .join(" ");
  let merged = known.get(key);
  if (merged === undefined) {
    merged = { allOf: [...all] };
    members.set(merged, all);
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(key, merged);
  }
  return merged;
}

function keywordNumber(schema: object): number {
  let number = numbers.get(schema);
  if (number === undefined) numbers.set(schema, (number = ++lastNumber));
  return number;
}

function mergedProperties(one: SchemaObject, other: SchemaObject): SchemaObject | undefined {
  if (!("properties" in one) && !("properties" in other)) return undefined;
  const [mine, others] = [(one["properties"] ?? {}) as SchemaObject, (other["properties"] ?? {}) as SchemaObject];
  const names = new Set([...Object.keys(mine), ...Object.keys(others)]);
  return Object.fromEntries(
    Array.from(names, (name) => {
      const left = Object.hasOwn(mine, name) ? mine[name] : one["additionalProperties"];
      return [name, both(left, Object.hasOwn(others, name) ? others[name] : other["additionalProperties"])];
    }),
  );
}

function mergedPatterns(one: SchemaObject, other: SchemaObject, place: string): unknown {
  const [mine, others] = [one["patternProperties"], other["patternProperties"]];
  if (mine !== undefined && others !== undefined) return same("patternProperties")(mine, others, place);
  const [patterns, beside] = mine === undefined ? [others, one] : [mine, other];
  if (patterns === undefined) return undefined;
  return Object.fromEntries(
    Object.entries(patterns as SchemaObject).map(([pattern, schema]) => [
      pattern,
      both(schema, beside["additionalProperties"]),
    ]),
  );
}

function mergedPlaces(one: SchemaObject, other: SchemaObject): readonly unknown[] | undefined {
  const [mine, others] = [
    (one["prefixItems"] ?? []) as readonly unknown[],
    (other["prefixItems"] ?? []) as readonly unknown[],
  ];
  const length = Math.max(mine.length, others.length);
  if (length === 0) return undefined;
  return Array.from({ length }, (_, index) =>
    both(index < mine.length ? mine[index] : one["items"], index < others.length ? others[index] : other["items"]),
  );
}

/** The types that both lists allow; an integer is a number. */
function commonTypes(left: readonly TypeName[], right: readonly TypeName[]): readonly TypeName[] {
  const narrow = (type: TypeName, others: readonly TypeName[]): readonly TypeName[] => {
    if (others.includes(type) || (type === "integer" && others.includes("number"))) return [type];
    return type === "number" && others.includes("integer") ? ["integer"] : [];
  };
  return [...new Set(left.flatMap((type) => narrow(type, right)))];
}
