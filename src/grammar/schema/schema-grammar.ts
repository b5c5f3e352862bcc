// Converts a JSON Schema to rules of a grammar. Every text that the rules accept satisfies the schema; they may accept
// less than it allows: properties are in the order of the schema, unmentioned names are generated only if it allows
// them explicitly or mentions none, and some oneOf are read as anyOf.

import { combinedDfa, type Dfa } from "../automaton/dfa.js";
import { choice, type Expression, NOTHING } from "../expression.js";
import type { JsonRules } from "./json-rules.js";
import { arrayExpression } from "./array.js";
import { type FieldContext, fieldsExpression, type FieldStyle } from "./fields.js";
import { optionsAreDisjoint } from "./conditions.js";
import { checkKeywords, keywordList, type TypeName, typesOf } from "./keywords.js";
import { listedExpression, listedValues } from "./listed-values.js";
import { onlyKeyword, type PlainSchema, SchemaMerger } from "./merge.js";
import { withoutNulls } from "./normal-form.js";
import { objectExpression } from "./object.js";
import { asSchema, checkSize, resolvePointer, type Schema, type SchemaObject } from "./pointer.js";
import { type NumberDemands, numberExpression } from "./number.js";
import { type StringDemands, stringDfa, stringExpression } from "./string.js";
import { canonicalText, fitsPlain, lengthsOf, numberBounds, type ValueContext } from "./value.js";
import { NO_TEXT_DFA } from "./string-language.js";

/** What the objects and arrays of a schema need for their parts. */
export interface SchemaContext extends ValueContext {
  readonly json: JsonRules;
  expression(schema: unknown, place: string): Expression;
  /** All values that satisfy a schema, if it lists them. */
  listed(schema: unknown, place: string): readonly unknown[] | undefined;
}

/** The expression of a JSON Schema. */
export function schemaExpression(json: JsonRules, schema: unknown, place: string): Expression {
  checkSize(schema, place);
  return new SchemaGrammar(json, asSchema(schema, place)).whole(place);
}

/** The objects of a JSON Schema with a field for each property, in a notation of their own. */
export function schemaFields(json: JsonRules, schema: unknown, style: FieldStyle, place: string): Expression {
  checkSize(schema, place);
  return new SchemaGrammar(json, asSchema(schema, place)).fields(style, place);
}

/** The string keywords of the normal form (normal-form.ts). */
interface PlainStrings {
  readonly patterns?: readonly string[];
  readonly notStrings?: readonly StringDemands[];
}

interface PlainNumbers {
  readonly divisors?: readonly number[];
  readonly notNumbers?: readonly NumberDemands[];
}

interface NamedRule {
  readonly rule: Expression & { readonly kind: "rule" };
  readonly schema: SchemaObject;
  readonly place: string;
}

class SchemaGrammar implements FieldContext {
  readonly json: JsonRules;
  readonly #root: Schema;
  readonly #merger: SchemaMerger;
  /** Rules by schema, so that a $ref leads to the same rule, and recursion ends. */
  readonly #rules = new Map<SchemaObject, Expression>();
  /** Reserved rules without a body yet; creating each body at once would nest as deep as references lead. */
  readonly #waiting: NamedRule[] = [];

  constructor(json: JsonRules, root: Schema) {
    this.json = json;
    this.#root = root;
    this.#merger = new SchemaMerger(root, json.budget);
  }

  whole(place: string): Expression {
    return this.#settled(this.expression(this.#root, place));
  }

  fields(style: FieldStyle, place: string): Expression {
    const objects = this.#merger
      .alternatives(this.#root, place)
      .filter(({ schema, place: where }) => typesOf(schema, where).includes("object"));
    return this.#settled(choice(...objects.map((plain) => fieldsExpression(this, plain.schema, style, plain.place))));
  }

  alternatives(schema: unknown, place: string): readonly PlainSchema[] {
    return this.#merger.alternatives(asSchema(schema, place), place);
  }

  typed(type: TypeName, { schema, place }: PlainSchema): Expression {
    return this.#typed(type, schema, place);
  }

  stringDemands({ schema, place }: PlainSchema): StringDemands {
    const { patterns = [], notStrings } = schema as PlainStrings;
    return { patterns, limits: lengthsOf(schema, place), excluded: notStrings };
  }

  /** Defines the rules that were reserved. */
  #settled(expression: Expression): Expression {
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

  strings(schema: unknown, place: string): Dfa {
    const plain = this.#merger
      .alternatives(asSchema(schema, place), place)
      .flatMap((alternative) => this.#stringsOf(alternative));
    return plain.reduce((one, other) => combinedDfa(one, other, "either", place), NO_TEXT_DFA);
  }

  satisfies(value: unknown, schema: unknown, place: string): boolean {
    const given = asSchema(schema, place);
    if (typeof given === "boolean") return given;
    return this.#merger
      .alternatives(given, place)
      .some((alternative) => fitsPlain(this, value, alternative.schema, alternative.place));
  }

  listed(schema: unknown, place: string): readonly unknown[] | undefined {
    const values = this.#merger
      .alternatives(asSchema(schema, place), place)
      .map((alternative) => this.#listedOf(alternative));
    return values.includes(undefined)
      ? undefined
      : [...new Map(values.flat().map((value) => [canonicalText(value), value])).values()];
  }

  #listedOf({ schema, place }: PlainSchema): readonly unknown[] | undefined {
    if ("enum" in schema) return listedValues(this, schema, place);
    const types = typesOf(schema, place);
    if (!types.every((type) => type === "boolean" || type === "null")) return undefined;
    return types.flatMap((type) => (type === "null" ? [null] : [true, false]));
  }

  #stringsOf({ schema, place }: PlainSchema): readonly Dfa[] {
    if (!("enum" in schema) && !typesOf({ type: ["string"], ...schema }, place).includes("string")) return [];
    const { patterns = [], notStrings } = schema as PlainStrings;
    const listed =
      "enum" in schema ? listedValues(this, schema, place).filter((value) => typeof value === "string") : undefined;
    const whole = stringDfa({ patterns, limits: lengthsOf(schema, place), listed }, place);
    return [
      (notStrings ?? []).reduce(
        (left, other) => combinedDfa(left, stringDfa(other, place), "first only", place),
        whole,
      ),
    ];
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
      const options = keywordList(schema, only, place) as readonly unknown[];
      const plain =
        only === "anyOf" ||
        options.length === 1 ||
        (only === "oneOf" && optionsAreDisjoint(this.#merger, options, `${place}.oneOf`));
      if (plain) {
        return choice(...options.map((option, index) => this.expression(option, `${place}.${only}[${index}]`)));
      }
    }
    // Alternatives that add nothing to the keywords beside them are equal.
    const plain = new Map(
      this.#merger.alternatives(schema, place).map((alternative) => [alternative.schema, alternative]),
    );
    return choice(...Array.from(plain.values(), (alternative) => this.#plain(alternative)));
  }

  #plain({ schema, place }: PlainSchema): Expression {
    if ("enum" in schema) {
      this.json.budget.step(place, (schema["enum"] as readonly unknown[]).length);
      return listedExpression(this, schema, place);
    }
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
    const demands = this.stringDemands({ schema, place });
    if (demands.limits.min > demands.limits.max) return NOTHING;
    return stringExpression(this.json, demands, `${place}.pattern`);
  }

  #number(type: "number" | "integer", schema: SchemaObject, place: string): Expression {
    const { divisors = [], notNumbers } = schema as PlainNumbers;
    return numberExpression(
      this.json,
      { whole: type === "integer", bounds: numberBounds(schema, place), divisors, excluded: notNumbers },
      place,
    );
  }
}
