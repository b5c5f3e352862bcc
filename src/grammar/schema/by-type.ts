// A `oneOf` whose options cannot be told apart as a whole may still be decided for values of one type: an option that
// allows undecidable objects is exact about numbers. Here a schema is reduced to what it says about one type.

import { isPlainObject } from "../../plain-object.js";
import type { Merging } from "./conditions.js";
import type { TypeName } from "./keywords.js";
import { asSchema, type Schema, type SchemaObject } from "./pointer.js";

/** Every value has exactly one of these types; integers are numbers. */
export const JSON_TYPES = ["object", "array", "string", "number", "boolean", "null"] as const satisfies TypeName[];
/** The type of a JSON value; an integer is a number. */
export type ValueType = (typeof JSON_TYPES)[number];

/** How deep combined schemas are followed; deeper parts stay as they are. */
const MAX_DEPTH = 8;

/** The schema without the options of `anyOf` and `oneOf` that no value of the type satisfies. */
export function reducedToType(merging: Merging, schema: Schema, type: ValueType, place: string, depth = 0): Schema {
  if (typeof schema === "boolean" || depth > MAX_DEPTH) return schema;
  const reduced: Record<string, unknown> = { ...schema };
  const parts = (keyword: string): readonly Schema[] =>
    (schema[keyword] as readonly unknown[]).map((part) =>
      reducedToType(merging, asSchema(part, `${place}.${keyword}`), type, place, depth + 1),
    );
  if (Array.isArray(schema["allOf"])) reduced["allOf"] = parts("allOf");
  for (const keyword of ["anyOf", "oneOf"]) {
    if (!Array.isArray(schema[keyword])) continue;
    const possible = parts(keyword).filter((part) => allowsType(merging, part, type, place));
    if (possible.length === 0) return false;
    reduced[keyword] = possible;
  }
  return reduced satisfies SchemaObject;
}

function allowsType(merging: Merging, schema: Schema, type: ValueType, place: string): boolean {
  if (isPlainObject(schema) && "$ref" in schema) return true;
  const ofType = [{ schema: { type: [type] }, place }];
  return merging.cross(merging.alternatives(schema, place), ofType, place).some((plain) => !merging.impossible(plain));
}
