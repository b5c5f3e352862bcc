// Places in a schema: their paths for messages, and the targets of local $refs.

import { isPlainObject } from "../../plain-object.js";
import { grammarInvalid, grammarLimit, GRAMMAR_LIMITS } from "../limits.js";

/** A JSON Schema that is an object of keywords. */
export type SchemaObject = Readonly<Record<string, unknown>>;
/** A JSON Schema; `true` accepts every value, and `false` none. */
export type Schema = boolean | SchemaObject;

/** Checks that a value is a schema; `place` is its path for the error message. */
export function asSchema(value: unknown, place: string): Schema {
  if (typeof value === "boolean" || isPlainObject(value)) return value;
  throw grammarInvalid(place, `expected a schema (an object, true or false), found ${nameOf(value)}`);
}

/** A short description of what was found instead of the expected value, for error messages. */
export function nameOf(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `${JSON.stringify(value)?.slice(0, 60)}`;
}

/** Checks the size and depth of a schema, so that everything after it may recurse and copy. */
export function checkSize(schema: unknown, place: string): void {
  const waiting: { readonly value: unknown; readonly depth: number }[] = [{ value: schema, depth: 0 }];
  let nodes = 0;
  let characters = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { value, depth } = next;
    if (++nodes > GRAMMAR_LIMITS.schemaNodes) throw grammarLimit(place, "schemaNodes", "a schema of values");
    // Properties and the like have two levels of JSON for one of the schema.
    if (depth > 2 * GRAMMAR_LIMITS.schemaDepth) throw grammarLimit(place, "schemaDepth", "a schema of levels");
    if (typeof value === "string") characters += value.length;
    if (typeof value === "object" && value !== null) {
      for (const [key, inner] of Object.entries(value)) {
        if (!Array.isArray(value)) characters += key.length;
        waiting.push({ value: inner, depth: depth + 1 });
      }
    }
    if (characters > GRAMMAR_LIMITS.schemaCharacters)
      throw grammarLimit(place, "schemaCharacters", "a schema of characters");
  }
}

/** The target of "#", "#/$defs/node" and the like; other references would have to be fetched. */
export function resolvePointer(
  root: Schema,
  reference: unknown,
  place: string,
): { readonly schema: Schema; readonly place: string } {
  if (typeof reference !== "string" || !/^#(?:$|\/)/.test(reference)) {
    throw grammarInvalid(
      `${place}.$ref`,
      `expected a reference inside the schema, as "#/$defs/name", found ${nameOf(reference)}`,
    );
  }
  let found: unknown = root;
  for (const step of reference.split("/").slice(1)) {
    const key = decodeStep(step);
    const inside = typeof found === "object" && found !== null && Object.hasOwn(found, key);
    if (!inside)
      throw grammarInvalid(`${place}.$ref`, `expected something at ${JSON.stringify(reference)}, found nothing`);
    found = (found as Readonly<Record<string, unknown>>)[key];
  }
  return { schema: asSchema(found, `${place}.$ref`), place: reference };
}

function decodeStep(step: string): string {
  let plain = step;
  try {
    plain = decodeURIComponent(step);
  } catch {
    // A percent sign that is no escape is literal.
  }
  return plain.replaceAll("~1", "/").replaceAll("~0", "~");
}
