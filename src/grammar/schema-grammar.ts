// A JSON Schema as rules of a grammar. Every text that the rules accept satisfies the schema; they may accept less than
// it allows: properties come in the order of the schema, names that it does not mention only where it says so or mentions
// none, oneOf is read as anyOf.

import { CharSet } from "./char-set.js";
import { choice, type Expression, NOTHING, repeat, sequence, text } from "./expression.js";
import type { JsonRules, LengthLimit } from "./json-rules.js";
import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "./limits.js";
import { type Bound, decimalRange, integerRange, type NumberBounds } from "./number-range.js";
import { regexExpression } from "./regex.js";
import { arrayExpression } from "./schema-array.js";
import { checkKeywords, countOf, listOf, type TypeName, typesOf } from "./schema-keywords.js";
import { onlyKeyword, type PlainSchema, SchemaMerger } from "./schema-merge.js";
import { objectExpression } from "./schema-object.js";
import { asSchema, checkSize, nameOf, resolvePointer, type Schema, type SchemaObject } from "./schema-pointer.js";
import { STRING_FORMATS } from "./string-formats.js";

/** What an object or array inside a schema asks for its parts. */
export interface SchemaContext {
  readonly json: JsonRules;
  expression(schema: unknown, place: string): Expression;
}

export function schemaExpression(json: JsonRules, schema: unknown, place: string): Expression {
  checkSize(schema, place);
  return new SchemaGrammar(json, asSchema(schema, place)).expression(schema, place);
}

class SchemaGrammar implements SchemaContext {
  readonly json: JsonRules;
  readonly #root: Schema;
  readonly #merger: SchemaMerger;
  /** By the schema itself, so that a $ref to it comes to the same rule, and recursion to an end. */
  readonly #rules = new Map<SchemaObject, Expression>();
  #depth = 0;
  #steps = 0;

  constructor(json: JsonRules, root: Schema) {
    this.json = json;
    this.#root = root;
    this.#merger = new SchemaMerger(root);
  }

  expression(value: unknown, place: string): Expression {
    const schema = asSchema(value, place);
    if (typeof schema === "boolean") return schema ? this.json.value : NOTHING;
    const known = this.#rules.get(schema);
    if (known !== undefined) return known;
    if (++this.#steps > GRAMMAR_LIMITS.schemaSteps) throw grammarLimit(place, "schemaSteps", "parts of a schema");
    if (++this.#depth > GRAMMAR_LIMITS.schemaDepth) throw grammarLimit(place, "schemaDepth", "a schema of levels");
    const rule = this.json.rules.reserve("schema");
    this.#rules.set(schema, rule);
    this.json.rules.define(rule, this.#combined(schema, place));
    this.#depth--;
    return rule;
  }

  #combined(schema: SchemaObject, place: string): Expression {
    checkKeywords(schema, place);
    const only = onlyKeyword(schema);
    if (only === "$ref") {
      const target = resolvePointer(this.#root, schema["$ref"], place);
      return this.expression(target.schema, target.place);
    }
    if (only !== undefined) {
      const options = listOf(schema, only, place) as readonly unknown[];
      if (only !== "allOf" || options.length === 1) {
        return choice(...options.map((option, index) => this.expression(option, `${place}.${only}[${index}]`)));
      }
    }
    return choice(...this.#merger.alternatives(schema, place).map((plain) => this.#plain(plain)));
  }

  #plain({ schema, place }: PlainSchema): Expression {
    if ("const" in schema || "enum" in schema) return this.#listed(schema, place);
    return choice(...typesOf(schema, place).map((type) => this.#typed(type, schema, place)));
  }

  #typed(type: TypeName, schema: SchemaObject, place: string): Expression {
    switch (type) {
      case "object":
        return objectExpression(this, schema, place);
      case "array":
        return arrayExpression(this, schema, place);
      case "string":
        return this.#string(schema, place);
      case "number":
      case "integer":
        return this.#number(type, schema, place);
      case "boolean":
        return this.json.boolean;
      case "null":
        return this.json.null;
      default:
        return type satisfies never;
    }
  }

  #listed(schema: SchemaObject, place: string): Expression {
    const values = "const" in schema ? [schema["const"]] : (listOf(schema, "enum", place) as readonly unknown[]);
    const allowed = "const" in schema && "enum" in schema ? listOf(schema, "enum", place) : undefined;
    const texts = new Set(allowed?.map((value) => JSON.stringify(value)));
    const types = "type" in schema ? typesOf(schema, place) : undefined;
    const limits = this.#lengths(schema, place);
    const bounds = numberBounds(schema, place);
    const fitting = values.filter((value) => {
      if (allowed !== undefined && !texts.has(JSON.stringify(value))) return false;
      if (types !== undefined && !types.some((type) => isOfType(value, type))) return false;
      if (typeof value === "string") return [...value].length >= limits.min && [...value].length <= limits.max;
      return typeof value !== "number" || insideBounds(value, bounds);
    });
    for (const keyword of ["pattern", "properties", "items", "prefixItems", "required"]) {
      if (keyword in schema) throw grammarInvalid(`${place}.${keyword}`, `expected no "${keyword}" beside a list of values, found one; keep the list alone`);
    }
    if (fitting.some((value) => JSON.stringify(value) === undefined)) throw grammarInvalid(place, "expected values of JSON, found another");
    return choice(...[...new Set(fitting.map((value) => JSON.stringify(value)))].map((value) => text(value)));
  }

  #string(schema: SchemaObject, place: string): Expression {
    const { pattern, format } = schema;
    const limits = this.#lengths(schema, place);
    const limited = limits.min > 0 || limits.max < Infinity;
    if (pattern !== undefined) {
      if (typeof pattern !== "string") throw grammarInvalid(`${place}.pattern`, `expected a regular expression, found ${nameOf(pattern)}`);
      if (limited) {
        const keyword = limits.min > 0 ? "minLength" : "maxLength";
        throw grammarInvalid(`${place}.${keyword}`, `expected no "${keyword}" beside "pattern", found one; count in the pattern, as in ^[a-z]{1,8}$`);
      }
      return this.#matching(pattern, `${place}.pattern`);
    }
    const known = typeof format === "string" && Object.hasOwn(STRING_FORMATS, format) ? STRING_FORMATS[format] : undefined;
    // A format is a note by the standard: where lengths are given these are kept.
    if (known !== undefined && !limited) return this.#matching(known, `${place}.format`);
    return this.json.limitedString(limits, place);
  }

  #matching(pattern: string, place: string): Expression {
    const characters = (set: CharSet): Expression => this.json.inString(set);
    const inside = regexExpression(pattern, { place, characters, around: repeat(characters(CharSet.all), 0, Infinity) });
    return sequence(text('"'), inside, text('"'));
  }

  #lengths(schema: SchemaObject, place: string): LengthLimit {
    return { min: countOf(schema, "minLength", place) ?? 0, max: countOf(schema, "maxLength", place) ?? Infinity };
  }

  #number(type: "number" | "integer", schema: SchemaObject, place: string): Expression {
    const bounds = numberBounds(schema, place);
    if (bounds.min === undefined && bounds.max === undefined) return type === "integer" ? this.json.integer : this.json.number;
    return type === "integer" ? integerRange(bounds) : decimalRange(bounds);
  }
}

function numberBounds(schema: SchemaObject, place: string): NumberBounds {
  const bound = (inclusive: string, exclusive: string, tighter: (a: number, b: number) => boolean): Bound | undefined => {
    const value = numberOf(schema, inclusive, place);
    // Draft 4 has true here, which makes the other one exclusive.
    if (typeof schema[exclusive] === "boolean") return value === undefined ? undefined : { value, exclusive: schema[exclusive] };
    const open = numberOf(schema, exclusive, place);
    if (open !== undefined && (value === undefined || !tighter(value, open))) return { value: open, exclusive: true };
    return value === undefined ? undefined : { value, exclusive: false };
  };
  return {
    min: bound("minimum", "exclusiveMinimum", (a, b) => a > b),
    max: bound("maximum", "exclusiveMaximum", (a, b) => a < b),
  };
}

function insideBounds(value: number, { min, max }: NumberBounds): boolean {
  const above = min === undefined || value > min.value || (value === min.value && !min.exclusive);
  return above && (max === undefined || value < max.value || (value === max.value && !max.exclusive));
}

function numberOf(schema: SchemaObject, keyword: string, place: string): number | undefined {
  const value = schema[keyword];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw grammarInvalid(`${place}.${keyword}`, `expected a number, found ${nameOf(value)}`);
}

function isOfType(value: unknown, type: TypeName): boolean {
  switch (type) {
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}
