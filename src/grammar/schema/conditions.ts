// Conditional keywords, as alternatives of plain schemas: `not`, `if` with `then` and `else`, dependencies, and a
// `oneOf` of which exactly one option may hold.

import { GrammarError } from "../../errors.js";
import { isPlainObject } from "../../plain-object.js";
import { grammarInvalid } from "../limits.js";
import { reducedToType, JSON_TYPES, type ValueType } from "./by-type.js";
import { keywordList, objectOf } from "./keywords.js";
import type { PlainSchema } from "./merge.js";
import { isNegatedWhole, negated } from "./negation.js";
import { asSchema, type Schema, type SchemaObject } from "./pointer.js";

/** What these keywords need of the merger. */
export interface Merging {
  alternatives(schema: Schema, place: string): readonly PlainSchema[];
  cross(left: readonly PlainSchema[], right: readonly PlainSchema[], place: string): readonly PlainSchema[];
  /** The target of a reference; undefined if there is none. */
  resolved(reference: unknown): Schema | undefined;
  /** Whether no value can satisfy a schema, as far as that is obvious. */
  impossible(schema: PlainSchema, depth?: number): boolean;
}

type Alternatives = readonly PlainSchema[];

/** With more options than this, overlapping ones of a `oneOf` are not excluded from each other. */
const MAX_EXCLUSIVE = 16;
/** Depth to which nested conditions are examined. */
const MAX_DEPTH = 8;

/** The conditional keywords of a schema, each as a list of plain schemas of which one has to hold. */
export function conditions(merging: Merging, schema: SchemaObject, place: string): readonly Alternatives[] {
  const lists: Alternatives[] = [];
  if (schema["not"] !== undefined)
    lists.push(
      required(negation(merging, asSchema(schema["not"], `${place}.not`), [], `${place}.not`), `${place}.not`),
    );
  if (schema["if"] !== undefined && (schema["then"] !== undefined || schema["else"] !== undefined))
    lists.push(conditional(merging, schema, place));
  for (const keyword of ["dependentRequired", "dependentSchemas", "dependencies"] as const) {
    for (const [name, then] of Object.entries(objectOf(schema, keyword, place)))
      lists.push(dependency(merging, name, then, `${place}.${keyword}.${name}`));
  }
  const options = keywordList(schema, "oneOf", place);
  if (options !== undefined) lists.push(exclusive(merging, options, `${place}.oneOf`));
  return lists;
}

function required(list: Alternatives | undefined, place: string): Alternatives {
  if (list !== undefined) return list;
  throw grammarInvalid(
    place,
    "expected keywords whose opposite a grammar can follow, found others; leave it out, and check the answer for it",
  );
}

/**
 * Schemas of values that do not satisfy a schema, perhaps not all of them; undefined if there is no way to express any.
 */
function negation(
  merging: Merging,
  schema: Schema,
  names: readonly string[],
  place: string,
  depth = 0,
): Alternatives | undefined {
  if (saysNothing(schema)) return [];
  if (depth > MAX_DEPTH || !isExact(merging, schema, depth)) return undefined;
  const canNegate = (inside: unknown): boolean =>
    negation(merging, asSchema(inside, place), [], place, depth + 1) !== undefined;
  let all: Alternatives = [{ schema: {}, place }];
  for (const { schema: plain } of merging.alternatives(schema, place)) {
    const opposite = negated(plain, { names, canNegate }, place).map((other) => ({ schema: other, place }));
    if (opposite.length === 0 && !saysNothing(plain)) return undefined;
    all = merging.cross(all, opposite, place);
  }
  return all.filter((plain) => !merging.impossible(plain));
}

function saysNothing(schema: Schema): boolean {
  return schema === true || (isPlainObject(schema) && Object.keys(schema).length === 0);
}

/** Cached by schema; schemas belong to one request and do not change. */
const exactSchemas = new WeakMap<SchemaObject, boolean>();
const negatableSchemas = new WeakMap<SchemaObject, boolean>();

/**
 * Whether the alternatives of a schema cover it completely, so that a value that satisfies none of them does not
 * satisfy it.
 */
function isExact(merging: Merging, schema: Schema, depth: number): boolean {
  if (typeof schema === "boolean") return true;
  let known = exactSchemas.get(schema);
  if (known === undefined) {
    // A schema that refers to itself is not examined again.
    exactSchemas.set(schema, false);
    exactSchemas.set(schema, (known = isExactAnew(merging, schema, depth)));
  }
  return known;
}

function isExactAnew(merging: Merging, schema: SchemaObject, depth: number): boolean {
  if (
    depth > MAX_DEPTH ||
    ["contains", "unevaluatedProperties", "unevaluatedItems"].some((keyword) => schema[keyword] !== undefined)
  )
    return false;
  const inside = (part: unknown): boolean =>
    typeof part === "boolean" || (isPlainObject(part) && isExact(merging, part, depth + 1));
  const parts = ["allOf", "anyOf", "oneOf"].flatMap((keyword) =>
    Array.isArray(schema[keyword]) ? (schema[keyword] as readonly unknown[]) : [],
  );
  if (![...parts, schema["if"] ?? true, schema["then"] ?? true, schema["else"] ?? true].every(inside)) return false;
  if (schema["$ref"] !== undefined && !inside(merging.resolved(schema["$ref"]))) return false;
  if (![schema["not"] ?? false, schema["if"] ?? false].every((part) => isNegatable(merging, part, depth + 1)))
    return false;
  const options = Array.isArray(schema["oneOf"]) ? (schema["oneOf"] as readonly unknown[]) : [];
  return (
    options.length === 0 ||
    optionsAreDisjoint(merging, options, "oneOf") ||
    (options.length <= MAX_EXCLUSIVE && options.every((option) => isNegatable(merging, option, depth + 1)))
  );
}

/** Whether all values that do not satisfy a schema can be expressed. */
function isNegatable(merging: Merging, schema: unknown, depth: number): boolean {
  if (typeof schema === "boolean") return true;
  if (!isPlainObject(schema)) return false;
  let known = negatableSchemas.get(schema);
  if (known === undefined) {
    negatableSchemas.set(schema, false);
    negatableSchemas.set(schema, (known = isExact(merging, schema, depth) && isNegatableAnew(merging, schema, depth)));
  }
  return known;
}

function isNegatableAnew(merging: Merging, schema: SchemaObject, depth: number): boolean {
  return merging
    .alternatives(schema, "not")
    .every(({ schema: plain }) =>
      isNegatedWhole(plain, (inside) => depth < MAX_DEPTH && isNegatable(merging, inside, depth + 1)),
    );
}

function conditional(merging: Merging, schema: SchemaObject, place: string): Alternatives {
  const condition = asSchema(schema["if"], `${place}.if`);
  const part = (keyword: "then" | "else"): Alternatives =>
    merging.alternatives(asSchema(schema[keyword] ?? true, `${place}.${keyword}`), `${place}.${keyword}`);
  const holds = merging.cross(merging.alternatives(condition, `${place}.if`), part("then"), place);
  const fails = negation(merging, condition, [], `${place}.if`);
  return [...holds, ...merging.cross(required(fails, `${place}.if`), part("else"), place)].filter(
    (plain) => !merging.impossible(plain),
  );
}

/** Either the property is absent, or the schema that depends on it holds. */
function dependency(merging: Merging, name: string, then: unknown, place: string): Alternatives {
  const absent: PlainSchema = { schema: { properties: { [name]: false } }, place };
  const schema = Array.isArray(then) ? { required: then } : asSchema(then, place);
  return [
    absent,
    ...merging.cross([{ schema: { required: [name] }, place }], merging.alternatives(schema, place), place),
  ];
}

/**
 * Options of a `oneOf` that exclude each other are kept; others lose the values that another option allows, if that can
 * be expressed.
 */
function exclusive(merging: Merging, options: readonly unknown[], place: string): Alternatives {
  const schemas = options.map((option, index) => asSchema(option, `${place}[${index}]`));
  const lists = schemas.map((schema, index) => merging.alternatives(schema, `${place}[${index}]`));
  if (schemas.length > MAX_EXCLUSIVE) return lists.flat();
  const names = [...new Set(lists.flat().flatMap(({ schema }) => Object.keys((schema["properties"] ?? {}) as object)))];
  let whole = true;
  const without = (left: Alternatives, other: Schema): Alternatives => {
    const opposite = within(() => negation(merging, other, names, place));
    const less = opposite === undefined ? undefined : within(() => merging.cross(left, opposite, place));
    whole &&= less !== undefined && isNegatable(merging, other, 0);
    return less ?? left;
  };
  const exact = lists.map((list, index) => {
    let left = list;
    for (const [other, others] of lists.entries()) {
      const schema = schemas[other] as Schema;
      if (other === index || areDisjoint(merging, list, others, place)) continue;
      left = isNegatable(merging, schema, 0)
        ? without(left, schema)
        : JSON_TYPES.flatMap((type) => {
            const typed = ofType(merging, left, type, place);
            const reduced = typed.length === 0 ? false : reducedToType(merging, schema, type, place);
            const isApart =
              reduced === false || areDisjoint(merging, typed, merging.alternatives(reduced, place), place);
            return isApart ? typed : without(typed, reduced);
          });
    }
    return left.filter((plain) => !merging.impossible(plain));
  });
  const all = exact.flat();
  // If the exclusion was complete and nothing is left, no value satisfies the schema.
  return all.length === 0 && !whole ? lists.flat() : all;
}

function ofType(merging: Merging, list: Alternatives, type: ValueType, place: string): Alternatives {
  const typed = merging.cross(list, [{ schema: { type: [type] }, place }], place);
  return typed.filter((plain) => !merging.impossible(plain));
}

/** Whether a `oneOf` is the same as an `anyOf`. */
export function optionsAreDisjoint(merging: Merging, options: readonly unknown[], place: string): boolean {
  if (options.length > MAX_EXCLUSIVE) return true;
  const lists = options.map((option, index) =>
    merging.alternatives(asSchema(option, `${place}[${index}]`), `${place}[${index}]`),
  );
  return lists.every((list, index) =>
    lists.slice(index + 1).every((other) => areDisjoint(merging, list, other, place)),
  );
}

function areDisjoint(merging: Merging, one: Alternatives, other: Alternatives, place: string): boolean {
  return within(() => merging.cross(one, other, place))?.every((plain) => merging.impossible(plain)) ?? false;
}

/** The result, or undefined if there are too many alternatives. */
function within<Result>(make: () => Result): Result | undefined {
  try {
    return make();
  } catch (error) {
    if (error instanceof GrammarError && error.details["limit"] === "schemaAlternatives") return undefined;
    throw error;
  }
}
