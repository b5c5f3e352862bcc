// Values that are meant to satisfy a schema: most do, and a validator says which. With them tests ask whether what should
// be accepted is.

import type { Dice } from "../../support/dice.js";
import { RegexSampler } from "./regex-sample.js";
import { FORMAT_SAMPLES, type JsonSchema } from "./schema-cases.js";

const TEXTS = ["", "a", "ab", "abc", "é", "日本", "😀", "a b", 'q"', "\\", "\n", "abcdefg", "0"];
const MOST_DEPTH = 6;

export class InstanceDrawer {
  readonly #root: JsonSchema;
  readonly #dice: Dice;

  constructor(root: JsonSchema, dice: Dice) {
    this.#root = root;
    this.#dice = dice;
  }

  draw(): unknown {
    return this.#value(this.#root, 0);
  }

  #value(given: unknown, depth: number): unknown {
    if (typeof given !== "object" || given === null) return this.#anything(depth);
    const schema = given as JsonSchema;
    const parts: unknown[] = [];
    if (typeof schema["$ref"] === "string") parts.push(this.#value(this.#resolved(schema["$ref"]), depth));
    for (const part of list(schema["allOf"]))
      parts.push(this.#value({ ...typeOnly(schema), ...(part as JsonSchema) }, depth));
    const options = [...list(schema["anyOf"]), ...list(schema["oneOf"])];
    // Deep inside recursion whatever ends it has to come up: the short ones.
    if (options.length > 0)
      parts.push(this.#value({ ...typeOnly(schema), ...(this.#dice.pick(options) as JsonSchema) }, depth));
    if ("const" in schema) return schema["const"];
    if (Array.isArray(schema["enum"])) return this.#dice.pick(schema["enum"]);
    const type = Array.isArray(schema["type"])
      ? this.#dice.pick(schema["type"] as string[])
      : (schema["type"] as string | undefined);
    if (type !== undefined && (parts.length === 0 || type === "object"))
      parts.unshift(this.#typed(type, schema, depth));
    if (parts.length === 0) return this.#anything(depth);
    return parts.every(isObject) ? (Object.assign({}, ...parts) as unknown) : parts.at(-1);
  }

  #typed(type: string, schema: JsonSchema, depth: number): unknown {
    switch (type) {
      case "object":
        return this.#object(schema, depth);
      case "array":
        return this.#array(schema, depth);
      case "string":
        return this.#text(schema);
      case "integer":
      case "number":
        return this.#number(type, schema);
      case "boolean":
        return this.#dice.below(2) === 0;
      default:
        return null;
    }
  }

  #object(schema: JsonSchema, depth: number): unknown {
    const declared = (schema["properties"] ?? {}) as JsonSchema;
    const required = list(schema["required"]) as readonly string[];
    const additional = schema["additionalProperties"];
    const made: Record<string, unknown> = {};
    for (const [name, inner] of Object.entries(declared)) {
      if (required.includes(name) || (depth < MOST_DEPTH && this.#dice.below(2) === 0))
        made[name] = this.#value(inner, depth + 1);
    }
    for (const name of required)
      made[name] ??= Object.hasOwn(declared, name) ? null : this.#value(additional ?? true, depth + 1);
    for (const [pattern, inner] of Object.entries((schema["patternProperties"] ?? {}) as JsonSchema)) {
      if (this.#dice.below(2) === 0) made[RegexSampler.draw(pattern, this.#dice)] = this.#value(inner, depth + 1);
    }
    const free =
      additional !== undefined
        ? additional !== false
        : Object.keys(declared).length === 0 && schema["patternProperties"] === undefined;
    for (let count = free && depth < MOST_DEPTH ? this.#dice.below(3) : 0; count > 0; count--)
      made[this.#dice.pick(["z", "abd", "na", "x-c", "éa", "q r"])] = this.#value(additional ?? true, depth + 1);
    return made;
  }

  #array(schema: JsonSchema, depth: number): unknown {
    const fixed = list(schema["prefixItems"]);
    const least = (schema["minItems"] ?? 0) as number;
    const most = Math.min(
      (schema["maxItems"] ?? Infinity) as number,
      Math.max(least, fixed.length) + (depth < MOST_DEPTH ? 2 : 0),
    );
    const count = least + this.#dice.below(most - least + 1);
    return Array.from({ length: count }, (_, index) => this.#value(fixed[index] ?? schema["items"] ?? true, depth + 1));
  }

  #text(schema: JsonSchema): string {
    if (typeof schema["pattern"] === "string") return RegexSampler.draw(schema["pattern"], this.#dice);
    if (typeof schema["format"] === "string") return this.#dice.pick(FORMAT_SAMPLES[schema["format"]] ?? TEXTS);
    const least = (schema["minLength"] ?? 0) as number;
    const most = Math.min((schema["maxLength"] ?? Infinity) as number, least + 4);
    const length = least + this.#dice.below(most - least + 1);
    return Array.from({ length }, () => this.#dice.pick([...'abé日😀"\\\n 0'])).join("");
  }

  #number(type: "integer" | "number", schema: JsonSchema): number {
    const low = (schema["minimum"] ?? schema["exclusiveMinimum"]) as number | undefined;
    const high = (schema["maximum"] ?? schema["exclusiveMaximum"]) as number | undefined;
    const [from, to] = [low ?? (high ?? 100) - 200, high ?? (low ?? -100) + 200];
    const step = (schema["multipleOf"] ?? (type === "integer" ? 1 : 0.125)) as number;
    const grid = (value: number): number => Math.round(value / step) * step;
    return this.#dice.pick([
      from,
      to,
      grid(from),
      grid(to),
      grid(this.#dice.between(from, to)),
      grid(this.#dice.between(from, to)),
    ]);
  }

  #anything(depth: number): unknown {
    const leaf = this.#dice.pick([0, 1, -1.5, "", "a", true, false, null]);
    if (depth > MOST_DEPTH - 2) return leaf;
    return this.#dice.pick([leaf, [], {}, [leaf], { a: leaf }, [[leaf], "b"], { "": { b: [leaf] } }]);
  }

  #resolved(reference: string): unknown {
    return reference
      .split("/")
      .slice(1)
      .reduce<unknown>((found, step) => (found as JsonSchema)[step], this.#root);
  }
}

function typeOnly(schema: JsonSchema): JsonSchema {
  return "type" in schema
    ? { type: schema["type"], properties: schema["properties"] ?? {}, additionalProperties: false }
    : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
