// Detects plain schemas that obviously no value satisfies: by types, lists of values, limits, and required properties.
// In doubt, a schema counts as satisfiable.

import { GrammarError } from "../../errors.js";
import { namedTypes, namesOf, objectOf } from "./keywords.js";
import type { Merging } from "./conditions.js";
import { asSchema, type SchemaObject } from "./pointer.js";
import { isOfType, lengthsOf, numberBounds } from "./value.js";

/** Depth to which nested properties are examined. */
const MAX_DEPTH = 3;

/**
 * Whether obviously no value satisfies a plain schema; `depth` counts the levels of nesting examined so far, which are
 * limited.
 */
export function isImpossible(merging: Merging, schema: SchemaObject, place: string, depth: number): boolean {
  const types = namedTypes(schema, place);
  if (types?.length === 0) return true;
  const listed = schema["enum"] as readonly unknown[] | undefined;
  if (listed !== undefined)
    return !listed.some((value) => types === undefined || types.some((type) => isOfType(value, type)));
  if (types === undefined) return false;
  return types.every((type) => {
    switch (type) {
      case "string": {
        const { min, max } = lengthsOf(schema, place);
        return min > max;
      }
      case "number":
      case "integer": {
        const { min, max } = numberBounds(schema, place);
        return (
          min !== undefined &&
          max !== undefined &&
          (min.value > max.value || (min.value === max.value && (min.exclusive || max.exclusive)))
        );
      }
      case "array":
        return (
          ((schema["minItems"] as number | undefined) ?? 0) > ((schema["maxItems"] as number | undefined) ?? Infinity)
        );
      case "object":
        return depth < MAX_DEPTH && lacksProperty(merging, schema, place, depth + 1);
      default:
        return false;
    }
  });
}

function lacksProperty(merging: Merging, schema: SchemaObject, place: string, depth: number): boolean {
  const declared = objectOf(schema, "properties", place);
  const closed = schema["additionalProperties"] === false && !("patternProperties" in schema);
  return namesOf(schema, "required", place).some((name) => {
    if (!Object.hasOwn(declared, name)) return closed;
    const where = `${place}.properties.${name}`;
    try {
      return merging
        .alternatives(asSchema(declared[name], where), where)
        .every((plain) => merging.impossible(plain, depth));
    } catch (error) {
      // Errors are reported where the schema is compiled; a cycle is only deeper than is examined.
      if (error instanceof GrammarError && error.code === "GRAMMAR_INVALID") return false;
      throw error;
    }
  });
}
