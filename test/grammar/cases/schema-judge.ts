// What docs/structured-output.md says of a text and its schema. A validator (ajv) decides whether the value satisfies the
// schema; a text that does and is written as the documents say has to be accepted.

import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { decoded, parsed } from "../walking/mutations.js";
import { isUri } from "./uri.js";
import type { JsonSchema } from "./schema-cases.js";

export type Verdict = "accept" | "refuse" | "either";

/** Where printers put a blank, and where the grammar allows one. */
const BLANK_PLACES = /(?<=[{[,:]) | (?=[}\]])/g;
/** More digits than this may be more than a number between bounds is written with; number-walks.ts knows how many. */
const PLAIN_DIGITS = 8;

/** Multiples are exact as they are written, and ajv sees what is left of so many digits in 64 bits. */
const LONG_NUMBER = /\d{16}|\d\.\d{14}/;

let ajv: Ajv2020 | undefined;

/** By draft 2020-12, with formats as their standards say. */
export function validatorOf(schema: JsonSchema | boolean): (value: unknown) => boolean {
  if (ajv === undefined) {
    ajv = new Ajv2020({ strict: false, multipleOfPrecision: 9, logger: false, validateSchema: false });
    (formats as unknown as (ajv: Ajv2020) => void)(ajv);
    // ajv wants something behind the scheme; RFC 3986 does not.
    ajv.addFormat("uri", isUri);
  }
  return ajv.compile(schema) as (value: unknown) => boolean;
}

export class SchemaJudge {
  readonly #schema: JsonSchema;
  readonly #validate: (value: unknown) => boolean;
  /** Formats are narrower than their standards in ways that only the documents tell. */
  readonly #hasFormat: boolean;
  readonly #listsObjects: boolean;
  readonly #hasMultiple: boolean;
  readonly #itemValidators = new Map<unknown, (value: unknown) => boolean>();

  constructor(schema: JsonSchema) {
    this.#schema = schema;
    this.#validate = validatorOf(schema);
    const text = JSON.stringify(schema);
    this.#hasFormat = text.includes('"format"');
    this.#hasMultiple = text.includes('"multipleOf"');
    this.#listsObjects = /"(?:const":[{[]|enum":\[[^\]]*[{[])/.test(text);
  }

  isValid(value: unknown): boolean {
    return this.#validate(value);
  }

  verdict(bytes: Uint8Array): Verdict {
    const text = decoded(bytes);
    const value = text === undefined ? undefined : parsed(text);
    if (text === undefined || value === undefined) return "refuse";
    if (!this.#validate(value)) return this.#hasMultiple && LONG_NUMBER.test(text) ? "either" : "refuse";
    return !this.#hasFormat && this.isPlain(text, value) ? "accept" : "either";
  }

  /** Written as the documents say: blanks, spelling and the order of properties. */
  isPlain(text: string, value: unknown): boolean {
    const dense = withoutBlanks(text);
    if (dense !== JSON.stringify(value) || (this.#listsObjects && dense !== text)) return false;
    return hasPlainNumbers(value) && this.#isOrdered(value, [this.#schema]);
  }

  #isOrdered(value: unknown, given: readonly unknown[]): boolean {
    if (typeof value !== "object" || value === null) return true;
    const schemas = this.#applicable(given);
    if (Array.isArray(value)) {
      // Items that no keyword mentions are written only if none is mentioned at all.
      if (
        schemas.some(
          (schema) =>
            "prefixItems" in schema && !("items" in schema) && list(schema["prefixItems"]).length < value.length,
        )
      )
        return false;
      if (schemas.some((schema) => this.#differsLate(value, list(schema["oneOf"])))) return false;
      return value.every((item, index) =>
        this.#isOrdered(
          item,
          schemas.flatMap((schema) => itemSchemas(schema, index)),
        ),
      );
    }
    const names = Object.keys(value);
    const order = mergedOrder(schemas);
    if (order === undefined || !follows(names, order, schemas)) return false;
    return names.every((name) =>
      this.#isOrdered(
        (value as JsonSchema)[name],
        schemas.flatMap((schema) => propertySchemas(schema, name)),
      ),
    );
  }

  /** All schemas that may speak of the same value, in the order in which the documents merge them. */
  #applicable(given: readonly unknown[], seen = new Set<unknown>()): readonly JsonSchema[] {
    return given.flatMap((schema) => {
      if (typeof schema !== "object" || schema === null || seen.has(schema)) return [];
      seen.add(schema);
      const rules = schema as JsonSchema;
      const referred = typeof rules["$ref"] === "string" ? [this.#resolved(rules["$ref"])] : [];
      return [
        rules,
        ...this.#applicable(
          [...referred, ...list(rules["allOf"]), ...list(rules["anyOf"]), ...list(rules["oneOf"])],
          seen,
        ),
      ];
    });
  }

  /** An option of `oneOf` that fails behind the first of its `items`: the documents leave such arrays out. */
  #differsLate(items: readonly unknown[], options: readonly unknown[]): boolean {
    return this.#applicable(options).some((option) => {
      const rest = items.slice(list(option["prefixItems"]).length);
      if (!("items" in option) || rest.length < 2) return false;
      const validate = this.#itemValidator(option["items"]);
      return validate(rest[0]) && !rest.every(validate);
    });
  }

  #itemValidator(schema: unknown): (value: unknown) => boolean {
    let validate = this.#itemValidators.get(schema);
    if (validate === undefined) {
      validate = validatorOf(
        typeof schema === "boolean" ? schema : { ...(schema as JsonSchema), $defs: this.#schema["$defs"] ?? {} },
      );
      this.#itemValidators.set(schema, validate);
    }
    return validate;
  }

  #resolved(reference: string): unknown {
    return reference
      .split("/")
      .slice(1)
      .reduce<unknown>((found, step) => (found as JsonSchema)[step], this.#schema);
  }
}

/** Names in the order of all of them; undefined if they disagree. */
function mergedOrder(schemas: readonly JsonSchema[]): readonly string[] | undefined {
  const merged: string[] = [];
  for (const schema of schemas) {
    const names = mentionedNames(schema);
    const known = names.filter((name) => merged.includes(name)).map((name) => merged.indexOf(name));
    if (known.some((place, index) => index > 0 && place < (known[index - 1] as number))) return undefined;
    // A new name before a known one would come before it in one order and behind it in the other.
    if (
      names.some((name, index) => !merged.includes(name) && names.slice(index).some((later) => merged.includes(later)))
    )
      return undefined;
    merged.push(...names.filter((name) => !merged.includes(name)));
  }
  return merged;
}

function mentionedNames(schema: JsonSchema): readonly string[] {
  return [
    ...new Set([
      ...Object.keys((schema["properties"] ?? {}) as JsonSchema),
      ...(list(schema["required"]) as readonly string[]),
    ]),
  ];
}

/** Mentioned names first, in their order; others only where every schema that mentions some lets others be. */
function follows(names: readonly string[], order: readonly string[], schemas: readonly JsonSchema[]): boolean {
  const places = names.map((name) => (order.includes(name) ? order.indexOf(name) : order.length));
  if (places.some((place, index) => index > 0 && place < (places[index - 1] as number))) return false;
  const others = names.filter((name) => !order.includes(name));
  if (others.length === 0) return true;
  if (others.some((name) => JSON.stringify(name).includes("\\"))) return false;
  const speaking = schemas.filter((schema) => mentionedNames(schema).length > 0 || "patternProperties" in schema);
  return speaking.every(
    (schema) =>
      "additionalProperties" in schema ||
      others.every((name) => patternsOf(schema).some(([pattern]) => new RegExp(pattern, "u").test(name))),
  );
}

function itemSchemas(schema: JsonSchema, index: number): readonly unknown[] {
  const fixed = list(schema["prefixItems"]);
  return [index < fixed.length ? fixed[index] : schema["items"]];
}

function propertySchemas(schema: JsonSchema, name: string): readonly unknown[] {
  const declared = (schema["properties"] ?? {}) as JsonSchema;
  const matching = patternsOf(schema)
    .filter(([pattern]) => new RegExp(pattern, "u").test(name))
    .map(([, inner]) => inner);
  return [...(Object.hasOwn(declared, name) ? [declared[name]] : [schema["additionalProperties"]]), ...matching];
}

function patternsOf(schema: JsonSchema): readonly (readonly [string, unknown])[] {
  return Object.entries((schema["patternProperties"] ?? {}) as JsonSchema);
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Blanks outside of strings where a grammar allows one, taken away. */
function withoutBlanks(text: string): string {
  return text.split(/("(?:[^"\\]|\\.)*")/).reduce((whole, part, index, parts) => {
    if (index % 2 === 1 || part.includes("  ")) return whole + part;
    // Between strings the punctuation beside a blank may be in the part itself, or be the quote that follows.
    const quoted = `${index > 0 ? '"' : ""}${part}${index + 1 < parts.length ? '"' : ""}`;
    const dense = quoted.replaceAll(BLANK_PLACES, "");
    return whole + dense.slice(index > 0 ? 1 : 0, index + 1 < parts.length ? -1 : undefined);
  }, "");
}

function hasPlainNumbers(value: unknown): boolean {
  if (typeof value === "number")
    return (
      /^-?\d+(?:\.\d+)?$/.test(String(value)) &&
      String(value).replaceAll(/[-.]/g, "").replace(/^0+/, "").length <= PLAIN_DIGITS
    );
  return typeof value !== "object" || value === null || Object.values(value).every(hasPlainNumbers);
}

/** A value with blanks at random where they may be. */
export function writtenLoosely(value: unknown, blank: () => boolean): string {
  return JSON.stringify(value)
    .split(/("(?:[^"\\]|\\.)*")/)
    .map((part, index) =>
      index % 2 === 1
        ? part
        : part
            .replaceAll(/[{[,:]/g, (mark) => (blank() ? `${mark} ` : mark))
            .replaceAll(/(?<=[^{[ ]|^)[}\]]/g, (mark) => (blank() ? ` ${mark}` : mark)),
    )
    .join("");
}
