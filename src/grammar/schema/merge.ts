// Merges schemas that hold together: allOf, a $ref with keywords beside it, anyOf inside a schema with further
// keywords. The result is a list of plain schemas in normal form, of which one has to hold, without combining keywords.

import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "../limits.js";
import { keywordList } from "./keywords.js";
import { normalSchema, withoutNulls } from "./normal-form.js";
import { conditions, type Merging } from "./conditions.js";
import { isImpossible } from "./unsatisfiable.js";
import { mergedSchema, mergeWeight } from "./pair.js";
import { asSchema, resolvePointer, type Schema, type SchemaObject } from "./pointer.js";
import type { WorkBudget } from "../work-budget.js";

/** Keywords with other schemas about the same value. */
const COMBINING = ["$ref", "allOf", "anyOf", "oneOf"] as const;

/** A schema without combining keywords (`allOf`, `anyOf`, `$ref` and the like), and its path for error messages. */
export interface PlainSchema {
  readonly schema: SchemaObject;
  readonly place: string;
}

/** Merges the schemas of one request. */
export class SchemaMerger implements Merging {
  readonly #root: Schema;
  readonly #budget: WorkBudget;
  readonly #resolving = new Set<string>();
  readonly #known = new WeakMap<SchemaObject, readonly PlainSchema[]>();
  /** Normal forms by schema: references lead to the same schema repeatedly, and equal results need not be compared. */
  readonly #normal = new WeakMap<SchemaObject, { readonly said: SchemaObject; readonly own: SchemaObject }>();

  constructor(root: Schema, budget: WorkBudget) {
    this.#root = root;
    this.#budget = budget;
  }

  /** The alternatives of a schema; empty if nothing can satisfy it. */
  alternatives(given: Schema, place: string): readonly PlainSchema[] {
    this.#budget.step(place);
    if (typeof given === "boolean") return given ? [{ schema: {}, place }] : [];
    let known = this.#known.get(given);
    if (known === undefined) this.#known.set(given, (known = this.#alternatives(given, place)));
    return known;
  }

  #alternatives(given: SchemaObject, place: string): readonly PlainSchema[] {
    const { said: schema, own } = this.#read(given, place);
    let list: readonly PlainSchema[] = [{ schema: own, place }];
    if (schema["$ref"] !== undefined) list = this.cross(list, this.#referred(schema["$ref"], place), place);
    for (const [index, part] of (keywordList(schema, "allOf", place) ?? []).entries()) {
      const inside = `${place}.allOf[${index}]`;
      list = this.cross(list, this.alternatives(asSchema(part, inside), inside), place);
    }
    const options = keywordList(schema, "anyOf", place);
    if (options !== undefined)
      list = this.cross(
        list,
        options.flatMap((option, index) =>
          this.alternatives(asSchema(option, `${place}.anyOf[${index}]`), `${place}.anyOf[${index}]`),
        ),
        place,
      );
    for (const condition of conditions(this, schema, place)) list = this.cross(list, condition, place);
    const plain = list.map(settled);
    return isNullable(schema, own) ? [...plain, { schema: { type: ["null"] }, place }] : plain;
  }

  #read(schema: SchemaObject, place: string): { readonly said: SchemaObject; readonly own: SchemaObject } {
    let known = this.#normal.get(schema);
    if (known === undefined) {
      const said = withoutNulls(schema);
      this.#normal.set(schema, (known = { said, own: normalSchema(said, place) }));
    }
    return known;
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

  cross(left: readonly PlainSchema[], right: readonly PlainSchema[], place: string): readonly PlainSchema[] {
    if (saysNothing(right)) return left;
    if (saysNothing(left)) return right;
    if (left.length * right.length > GRAMMAR_LIMITS.schemaAlternatives)
      throw grammarLimit(place, "schemaAlternatives", "alternatives that come of merging");
    const pairs = left.flatMap((mine) => right.map((others) => this.#pair(mine, others, place)));
    return pairs.filter((pair) => pair !== undefined);
  }

  resolved(reference: unknown): Schema | undefined {
    try {
      return resolvePointer(this.#root, reference, "").schema;
    } catch {
      // The error is reported where the reference is followed.
      return undefined;
    }
  }

  impossible({ schema, place }: PlainSchema, depth = 0): boolean {
    this.#budget.step(place);
    return isImpossible(this, schema, place, depth);
  }

  #pair(one: PlainSchema, other: PlainSchema, place: string): PlainSchema | undefined {
    if (isEmpty(other.schema)) return one;
    if (isEmpty(one.schema)) return other;
    this.#budget.merge(place, mergeWeight(one.schema) + mergeWeight(other.schema));
    const schema = mergedSchema(one.schema, other.schema, place);
    return schema === undefined ? undefined : { schema, place };
  }
}

function saysNothing(list: readonly PlainSchema[]): boolean {
  return list.length === 1 && isEmpty((list[0] as PlainSchema).schema);
}

function isEmpty(schema: SchemaObject): boolean {
  return Object.keys(schema).length === 0;
}

/**
 * Whether null is allowed. OpenAPI 3.0 has no other way to allow null beside a reference, so `nullable` applies to the
 * whole schema, and not only to the type beside it. A list of values of its own has to include null, too.
 */
function isNullable(schema: SchemaObject, own: SchemaObject): boolean {
  if (schema["nullable"] !== true || !COMBINING.some((keyword) => schema[keyword] !== undefined)) return false;
  const { enum: values } = own as { readonly enum?: readonly unknown[] };
  return values === undefined || values.includes(null);
}

/**
 * Resolves unevaluated properties and items: everything that the parts mention is known now, so unevaluated means
 * additional.
 */
function settled(plain: PlainSchema): PlainSchema {
  const { unevaluatedProperties: properties, unevaluatedItems: items, ...schema } = plain.schema;
  if (properties === undefined && items === undefined) return plain;
  const { additionalProperties = properties, items: others = items } = schema;
  return {
    place: plain.place,
    schema: {
      ...schema,
      ...(additionalProperties === undefined ? {} : { additionalProperties }),
      ...(others === undefined ? {} : { items: others }),
    },
  };
}

/** The only keyword of a schema that consists of one other schema, or of a choice of others. */
export function onlyKeyword(schema: SchemaObject): (typeof COMBINING)[number] | undefined {
  const [only, another] = Object.keys(schema).filter((key) => !NOTES.has(key));
  return another === undefined ? COMBINING.find((keyword) => keyword === only) : undefined;
}

const NOTES = new Set([
  "title",
  "description",
  "default",
  "example",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
  "$comment",
  "$schema",
  "$id",
  "id",
  "$anchor",
  "$defs",
  "definitions",
]);
