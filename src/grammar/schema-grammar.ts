// A JSON Schema as rules of a grammar. Every text that the rules accept satisfies the schema; they may accept less than
// it allows: properties come in the order of the schema, names that it does not mention only where it says so or mentions
// none, oneOf is read as anyOf.

import { choice, type Expression, NOTHING } from "./expression.js";
import type { JsonRules } from "./json-rules.js";
import { grammarInvalid } from "./limits.js";
import { decimalRange, integerRange } from "./number-range.js";
import { arrayExpression } from "./schema-array.js";
import { checkKeywords, listOf, type TypeName, typesOf } from "./schema-keywords.js";
import { lengthsOf, listedExpression, numberBounds } from "./schema-listed.js";
import { onlyKeyword, type PlainSchema, SchemaMerger } from "./schema-merge.js";
import { withoutNulls } from "./schema-normal.js";
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
  return new SchemaGrammar(json, asSchema(schema, place)).whole(place);
}

interface NamedRule {
  readonly rule: Expression & { readonly kind: "rule" };
  readonly schema: SchemaObject;
  readonly place: string;
}

class SchemaGrammar implements SchemaContext {
  readonly json: JsonRules;
  readonly #root: Schema;
  readonly #merger: SchemaMerger;
  /** By the schema itself, so that a $ref to it comes to the same rule, and recursion to an end. */
  readonly #rules = new Map<SchemaObject, Expression>();
  /** Rules that are named and have no body yet: to go into each at once would nest as deep as references lead. */
  readonly #waiting: NamedRule[] = [];

  constructor(json: JsonRules, root: Schema) {
    this.json = json;
    this.#root = root;
    this.#merger = new SchemaMerger(root, json.budget);
  }

  whole(place: string): Expression {
    const expression = this.expression(this.#root, place);
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) {
      this.json.rules.define(next.rule, this.#combined(next.schema, next.place));
    }
    return expression;
  }

  expression(value: unknown, place: string): Expression {
    const schema = asSchema(value, place);
    if (typeof schema === "boolean") return schema ? this.json.value : NOTHING;
    const known = this.#rules.get(schema);
    if (known !== undefined) return known;
    this.json.budget.step(place);
    const rule = this.json.rules.reserve("schema");
    this.#rules.set(schema, rule);
    this.#waiting.push({ rule, schema, place });
    return rule;
  }

  #combined(given: SchemaObject, place: string): Expression {
    const schema = withoutNulls(given);
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
    // Alternatives that say no more than what stands beside them are the same.
    const plain = new Map(this.#merger.alternatives(schema, place).map((alternative) => [alternative.schema, alternative]));
    return choice(...Array.from(plain.values(), (alternative) => this.#plain(alternative)));
  }

  #plain({ schema, place }: PlainSchema): Expression {
    if ("enum" in schema) return listedExpression(this.json.budget, schema, place);
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

  #string(schema: SchemaObject, place: string): Expression {
    const { pattern, format } = schema;
    const limits = lengthsOf(schema, place);
    if (limits.min > limits.max) return NOTHING;
    const limited = limits.min > 0 || limits.max < Infinity;
    if (pattern !== undefined) {
      if (typeof pattern !== "string") throw grammarInvalid(`${place}.pattern`, `expected a regular expression, found ${nameOf(pattern)}`);
      if (limited) {
        const keyword = limits.min > 0 ? "minLength" : "maxLength";
        throw grammarInvalid(`${place}.${keyword}`, `expected no "${keyword}" beside "pattern", found one; count in the pattern, as in ^[a-z]{1,8}$`);
      }
      return this.json.matching(pattern, `${place}.pattern`);
    }
    const known = typeof format === "string" && Object.hasOwn(STRING_FORMATS, format) ? STRING_FORMATS[format] : undefined;
    // A format is a note by the standard: where lengths are given these are kept.
    if (known !== undefined && !limited) return this.json.matching(known, `${place}.format`);
    return this.json.limitedString(limits, place);
  }

  #number(type: "number" | "integer", schema: SchemaObject, place: string): Expression {
    const bounds = numberBounds(schema, place);
    if (bounds.min === undefined && bounds.max === undefined) return type === "integer" ? this.json.integer : this.json.number;
    const key = JSON.stringify(bounds);
    return this.json.once(type, key, () => {
      this.json.budget.step(place, key.length);
      return type === "integer" ? integerRange(bounds) : decimalRange(bounds);
    });
  }
}
