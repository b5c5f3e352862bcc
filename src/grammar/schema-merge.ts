// One schema out of several that hold together: allOf, a $ref with keywords beside it, anyOf inside a schema that says
// more. The result is a list of plain schemas in their normal form, of which one has to hold; none of them holds another by
// keyword.

import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "./limits.js";
import { listOf } from "./schema-keywords.js";
import { normalSchema } from "./schema-normal.js";
import { mergedSchema, weightOf } from "./schema-pair.js";
import { asSchema, resolvePointer, type Schema, type SchemaObject } from "./schema-pointer.js";
import type { WorkBudget } from "./work-budget.js";

/** Keywords that hold other schemas about the same value. */
const COMBINING = ["$ref", "allOf", "anyOf", "oneOf"] as const;

export interface PlainSchema {
  readonly schema: SchemaObject;
  readonly place: string;
}

export class SchemaMerger {
  readonly #root: Schema;
  readonly #budget: WorkBudget;
  readonly #resolving = new Set<string>();

  constructor(root: Schema, budget: WorkBudget) {
    this.#root = root;
    this.#budget = budget;
  }

  /** Empty where nothing can satisfy it. */
  alternatives(schema: Schema, place: string): readonly PlainSchema[] {
    this.#budget.step(place);
    if (typeof schema === "boolean") return schema ? [{ schema: {}, place }] : [];
    let list: readonly PlainSchema[] = [{ schema: normalSchema(schema, place), place }];
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
    return list.map(settled);
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
    if (saysNothing(right)) return left;
    if (saysNothing(left)) return right;
    if (left.length * right.length > GRAMMAR_LIMITS.schemaAlternatives) throw grammarLimit(place, "schemaAlternatives", "alternatives that come of merging");
    const pairs = left.flatMap((mine) => right.map((others) => this.#pair(mine, others, place)));
    return pairs.filter((pair) => pair !== undefined);
  }

  #pair(one: PlainSchema, other: PlainSchema, place: string): PlainSchema | undefined {
    if (isEmpty(other.schema)) return one;
    if (isEmpty(one.schema)) return other;
    this.#budget.merge(place, weightOf(one.schema) + weightOf(other.schema));
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

/** All that its parts say is known now: what they left unevaluated is what is additional to them. */
function settled(plain: PlainSchema): PlainSchema {
  const { unevaluatedProperties: properties, unevaluatedItems: items, ...schema } = plain.schema;
  if (properties === undefined && items === undefined) return plain;
  const { additionalProperties = properties, items: others = items } = schema;
  return {
    place: plain.place,
    schema: { ...schema, ...(additionalProperties === undefined ? {} : { additionalProperties }), ...(others === undefined ? {} : { items: others }) },
  };
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
