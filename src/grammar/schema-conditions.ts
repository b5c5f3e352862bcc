// Keywords that hold under a condition, as alternatives of plain schemas: `not`, `if` with `then` and `else`, dependencies,
// and a `oneOf` of which exactly one option may hold.

import { GrammarError } from "../errors.js";
import { isPlainObject } from "../plain-object.js";
import { grammarInvalid } from "./limits.js";
import { listOf, objectOf } from "./schema-keywords.js";
import type { PlainSchema } from "./schema-merge.js";
import { negated } from "./schema-negation.js";
import { asSchema, type Schema, type SchemaObject } from "./schema-pointer.js";

/** What the merger does for these. */
export interface Merging {
  alternatives(schema: Schema, place: string): readonly PlainSchema[];
  cross(left: readonly PlainSchema[], right: readonly PlainSchema[], place: string): readonly PlainSchema[];
  /** Whether no value can satisfy it, as far as that is plain to see. */
  impossible(schema: PlainSchema, depth?: number): boolean;
}

type Alternatives = readonly PlainSchema[];

/** Where their options are more than this, overlapping ones of a `oneOf` are not told apart. */
const MAX_EXCLUSIVE = 16;
/** What makes alternatives leave something out, so that what does not satisfy them may yet satisfy the schema. */
const INEXACT = ["not", "if", "oneOf", "contains", "uniqueItems", "dependencies", "dependentSchemas", "dependentRequired", "propertyNames", "patternProperties", "unevaluatedProperties", "unevaluatedItems"];

export function conditions(merging: Merging, schema: SchemaObject, place: string): readonly Alternatives[] {
  const lists: Alternatives[] = [];
  if (schema["not"] !== undefined) lists.push(required(negation(merging, asSchema(schema["not"], `${place}.not`), [], `${place}.not`), `${place}.not`));
  if (schema["if"] !== undefined && (schema["then"] !== undefined || schema["else"] !== undefined)) lists.push(conditional(merging, schema, place));
  for (const keyword of ["dependentRequired", "dependentSchemas", "dependencies"] as const) {
    for (const [name, then] of Object.entries(objectOf(schema, keyword, place))) lists.push(dependency(merging, name, then, `${place}.${keyword}.${name}`));
  }
  const options = listOf(schema, "oneOf", place);
  if (options !== undefined) lists.push(exclusive(merging, options, `${place}.oneOf`));
  return lists;
}

function required(list: Alternatives, place: string): Alternatives {
  if (list.length > 0) return list;
  throw grammarInvalid(place, "expected keywords whose opposite a grammar can follow, found others; leave it out, and check the answer for it");
}

/** Empty where it cannot be told. */
function negation(merging: Merging, schema: Schema, names: readonly string[], place: string): Alternatives {
  if (schema === true || (isPlainObject(schema) && Object.keys(schema).length === 0)) return [];
  if (isInexact(schema)) return [];
  const lists = merging.alternatives(schema, place).map(({ schema: plain }) => negated(plain, names, place).map((opposite) => ({ schema: opposite, place })));
  return lists.reduce<Alternatives>((all, list) => merging.cross(all, list, place), [{ schema: {}, place }]).filter((plain) => !merging.impossible(plain));
}

/** Through everything that speaks of the same value; references are followed by the merger, and are not looked into here. */
function isInexact(schema: Schema): boolean {
  if (typeof schema === "boolean") return false;
  if (INEXACT.some((keyword) => schema[keyword] !== undefined)) return true;
  const parts = ["allOf", "anyOf"].flatMap((keyword) => (Array.isArray(schema[keyword]) ? (schema[keyword] as readonly unknown[]) : []));
  return "$ref" in schema || parts.some((part) => isPlainObject(part) && isInexact(part));
}

function conditional(merging: Merging, schema: SchemaObject, place: string): Alternatives {
  const condition = asSchema(schema["if"], `${place}.if`);
  const part = (keyword: "then" | "else"): Alternatives => merging.alternatives(asSchema(schema[keyword] ?? true, `${place}.${keyword}`), `${place}.${keyword}`);
  const holds = merging.cross(merging.alternatives(condition, `${place}.if`), part("then"), place);
  const fails = negation(merging, condition, [], `${place}.if`);
  const otherwise = fails.length === 0 ? [] : merging.cross(fails, part("else"), place);
  return required([...holds, ...otherwise].filter((plain) => !merging.impossible(plain)), `${place}.if`);
}

/** The property is not there, or what depends on it holds. */
function dependency(merging: Merging, name: string, then: unknown, place: string): Alternatives {
  const absent: PlainSchema = { schema: { properties: { [name]: false } }, place };
  const schema = Array.isArray(then) ? { required: then } : asSchema(then, place);
  return [absent, ...merging.cross([{ schema: { required: [name] }, place }], merging.alternatives(schema, place), place)];
}

/** Options that cannot hold together stay as they are; of others each without what the others allow, where that can be told. */
function exclusive(merging: Merging, options: readonly unknown[], place: string): Alternatives {
  const schemas = options.map((option, index) => asSchema(option, `${place}[${index}]`));
  const lists = schemas.map((schema, index) => merging.alternatives(schema, `${place}[${index}]`));
  if (schemas.length > MAX_EXCLUSIVE) return lists.flat();
  const names = [...new Set(lists.flat().flatMap(({ schema }) => Object.keys((schema["properties"] ?? {}) as object)))];
  const exact = lists.map((list, index) => {
    let left = list;
    for (const [other, others] of lists.entries()) {
      if (other === index || areDisjoint(merging, list, others, place)) continue;
      const opposite = within(() => negation(merging, schemas[other] as Schema, names, place));
      if (opposite.length > 0) left = within(() => merging.cross(left, opposite, place), left);
    }
    return left.filter((plain) => !merging.impossible(plain));
  });
  const all = exact.flat();
  return all.length === 0 ? lists.flat() : all;
}

/** Whether a `oneOf` is the same as an `anyOf`. */
export function optionsAreDisjoint(merging: Merging, options: readonly unknown[], place: string): boolean {
  if (options.length > MAX_EXCLUSIVE) return true;
  const lists = options.map((option, index) => merging.alternatives(asSchema(option, `${place}[${index}]`), `${place}[${index}]`));
  return lists.every((list, index) => lists.slice(index + 1).every((other) => areDisjoint(merging, list, other, place)));
}

function areDisjoint(merging: Merging, one: Alternatives, other: Alternatives, place: string): boolean {
  return within(() => merging.cross(one, other, place), undefined)?.every((plain) => merging.impossible(plain)) ?? false;
}

/** What comes to too many alternatives is not told apart. */
function within<Result>(make: () => Result, otherwise: Result = [] as never): Result {
  try {
    return make();
  } catch (error) {
    if (error instanceof GrammarError && error.details["limit"] === "schemaAlternatives") return otherwise;
    throw error;
  }
}
