// One schema out of several that hold together: allOf, a $ref with keywords beside it, anyOf inside a schema that says
// more. The result is a list of plain schemas, of which one has to hold; none of them holds another by keyword.

import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "./limits.js";
import { checkKeywords, listOf, namedTypes, type TypeName } from "./schema-keywords.js";
import { asSchema, isObject, resolvePointer, type Schema, type SchemaObject } from "./schema-pointer.js";

/** Keywords that hold other schemas about the same value. */
const COMBINING = ["$ref", "allOf", "anyOf", "oneOf"] as const;

export interface PlainSchema {
  readonly schema: SchemaObject;
  readonly place: string;
}

export class SchemaMerger {
  readonly #root: Schema;
  readonly #resolving = new Set<string>();
  #steps = 0;

  constructor(root: Schema) {
    this.#root = root;
  }

  /** Empty where nothing can satisfy it. */
  alternatives(schema: Schema, place: string): readonly PlainSchema[] {
    if (++this.#steps > GRAMMAR_LIMITS.schemaSteps) throw grammarLimit(place, "schemaSteps", "parts that hold together");
    if (typeof schema === "boolean") return schema ? [{ schema: {}, place }] : [];
    checkKeywords(schema, place);
    let list: readonly PlainSchema[] = [{ schema: without(schema, COMBINING), place }];
    if (schema["$ref"] !== undefined) list = this.#cross(list, this.#referred(schema["$ref"], place), place);
    for (const [index, part] of (listOf(schema, "allOf", place) ?? []).entries()) {
      const inside = `${place}.allOf[${index}]`;
      list = this.#cross(list, this.alternatives(asSchema(part, inside), inside), place);
    }
    for (const keyword of ["anyOf", "oneOf"] as const) {
      const options = listOf(schema, keyword, place);
      if (options === undefined) continue;
      const all = options.flatMap((option, index) => {
        const inside = `${place}.${keyword}[${index}]`;
        return this.alternatives(asSchema(option, inside), inside);
      });
      list = this.#cross(list, all, place);
    }
    return list;
  }

  #referred(reference: unknown, place: string): readonly PlainSchema[] {
    const target = resolvePointer(this.#root, reference, place);
    if (this.#resolving.has(target.place)) {
      throw grammarInvalid(`${place}.$ref`, "expected a schema that does not merge with itself, found a circle");
    }
    this.#resolving.add(target.place);
    try {
      return this.alternatives(target.schema, target.place);
    } finally {
      this.#resolving.delete(target.place);
    }
  }

  #cross(left: readonly PlainSchema[], right: readonly PlainSchema[], place: string): readonly PlainSchema[] {
    if (left.length * right.length > GRAMMAR_LIMITS.schemaAlternatives) throw grammarLimit(place, "schemaAlternatives", "alternatives that come of merging");
    return left.flatMap((one) =>
      right.flatMap((other) => {
        const schema = merged(one.schema, other.schema, place);
        return schema === undefined ? [] : [{ schema, place: Object.keys(one.schema).length === 0 ? other.place : place }];
      }),
    );
  }
}

/** Whether a schema speaks of its value through one other schema only, or through a choice of others. */
export function onlyKeyword(schema: SchemaObject): (typeof COMBINING)[number] | undefined {
  const [only, another] = Object.keys(schema).filter((key) => !NOTES.has(key));
  return another === undefined ? COMBINING.find((keyword) => keyword === only) : undefined;
}

const NOTES = new Set([
  "title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id", "id", "$anchor",
  "$defs", "definitions",
]);

type Combine = (left: unknown, right: unknown, place: string) => unknown;
/** Says that no value satisfies both. */
const NEVER = Symbol("never");

const largest: Combine = (left, right) => Math.max(left as number, right as number);
const smallest: Combine = (left, right) => Math.min(left as number, right as number);
const both: Combine = (left, right) => ({ allOf: [left, right] });
const first: Combine = (left) => left;
const same =
  (keyword: string): Combine =>
  (left, right, place) => {
    if (JSON.stringify(left) === JSON.stringify(right)) return left;
    throw grammarInvalid(`${place}.${keyword}`, `expected one "${keyword}" at most for one value, found several`);
  };

const COMBINERS: Readonly<Record<string, Combine>> = {
  type: (left, right, place) => {
    const types = commonTypes(namedTypes({ type: left }, place) ?? [], namedTypes({ type: right }, place) ?? []);
    return types.length === 0 ? NEVER : types;
  },
  enum: (left, right) => {
    const texts = new Set((right as readonly unknown[]).map((value) => JSON.stringify(value)));
    return (left as readonly unknown[]).filter((value) => texts.has(JSON.stringify(value)));
  },
  required: (left, right) => [...new Set([...(left as readonly unknown[]), ...(right as readonly unknown[])])],
  minimum: largest, exclusiveMinimum: largest, maximum: smallest, exclusiveMaximum: smallest,
  minLength: largest, maxLength: smallest, minItems: largest, maxItems: smallest, minProperties: largest, maxProperties: smallest,
  items: both, additionalProperties: (left, right, place) => (left === false || right === false ? false : both(left, right, place)),
  unevaluatedProperties: (left, right, place) => (left === false || right === false ? false : both(left, right, place)),
  prefixItems: same("prefixItems"), additionalItems: same("additionalItems"), pattern: same("pattern"), patternProperties: same("patternProperties"),
  nullable: (left, right) => left === true && right === true,
};

function merged(left: SchemaObject, right: SchemaObject, place: string): SchemaObject | undefined {
  const result: Record<string, unknown> = {};
  const [one, other] = [constAsEnum(left), constAsEnum(right)];
  for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
    if (key === "properties") continue;
    if (!(key in one) || !(key in other)) {
      result[key] = key in one ? one[key] : other[key];
      continue;
    }
    const combine = Object.hasOwn(COMBINERS, key) ? (COMBINERS[key] as Combine) : first;
    result[key] = combine(one[key], other[key], place);
    if (result[key] === NEVER) return undefined;
  }
  if ("prefixItems" in one !== "prefixItems" in other && "items" in one !== "items" in other) {
    throw grammarInvalid(`${place}.prefixItems`, 'expected "items" and "prefixItems" in one schema, found them in parts that hold together');
  }
  const properties = mergedProperties(one, other);
  if (properties !== undefined) result["properties"] = properties;
  return result;
}

/** A name that only one of them mentions is an additional property to the other. */
function mergedProperties(one: SchemaObject, other: SchemaObject): SchemaObject | undefined {
  const [left, right] = [one["properties"], other["properties"]];
  if (!isObject(left) && !isObject(right)) return undefined;
  const [mine, others] = [isObject(left) ? left : {}, isObject(right) ? right : {}];
  const entries = [...new Set([...Object.keys(mine), ...Object.keys(others)])].map((name): [string, unknown] => {
    const [a, b] = [Object.hasOwn(mine, name) ? mine[name] : one["additionalProperties"], Object.hasOwn(others, name) ? others[name] : other["additionalProperties"]];
    if (a === undefined || b === undefined) return [name, a ?? b];
    return [name, { allOf: [a, b] }];
  });
  return Object.fromEntries(entries);
}

/** A whole number is a number. */
export function commonTypes(left: readonly TypeName[], right: readonly TypeName[]): readonly TypeName[] {
  const narrow = (type: TypeName, others: readonly TypeName[]): readonly TypeName[] => {
    if (others.includes(type) || (type === "integer" && others.includes("number"))) return [type];
    return type === "number" && others.includes("integer") ? ["integer"] : [];
  };
  return [...new Set(left.flatMap((type) => narrow(type, right)))];
}

function constAsEnum(schema: SchemaObject): SchemaObject {
  if (!("const" in schema)) return schema;
  const { const: value, ...rest } = schema;
  if (!("enum" in rest)) return { ...rest, enum: [value] };
  const listed = (rest["enum"] as readonly unknown[]).some((entry) => JSON.stringify(entry) === JSON.stringify(value));
  return { ...rest, enum: listed ? [value] : [] };
}

function without(schema: SchemaObject, keywords: readonly string[]): SchemaObject {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !keywords.includes(key)));
}
