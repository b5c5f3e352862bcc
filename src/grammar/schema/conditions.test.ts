// Keywords that hold under a condition, against texts: `not`, `if`, dependencies, an exclusive `oneOf`, and what else is
// followed by combining automata.

import { describe, expect, test } from "vitest";
import { ByteMatcher } from "../testing/byte-matcher.js";

const matcher = new ByteMatcher();

interface Case {
  readonly schema: unknown;
  readonly accepts: readonly string[];
  readonly refuses: readonly string[];
}

const COLOURS = ["red", "green", "blue", "black", "white", "pink", "grey", "brown", "teal"];

const CASES: Readonly<Record<string, Case>> = {
  "options that overlap are written without what the others allow": {
    schema: {
      oneOf: [
        { type: "integer", minimum: -9, maximum: 119 },
        { oneOf: [{ type: "boolean" }, { type: "string" }, { type: "number" }] },
      ],
    },
    accepts: ["120", "-10", "0.5", '"x"', "true"],
    refuses: ["119", "-9", "null"],
  },
  "options that overlap are told apart for the types where that can be done": {
    schema: {
      oneOf: [
        {
          oneOf: [
            { type: "object", properties: { a: { type: "null" } } },
            { type: "object", required: ["b"], additionalProperties: { const: "Jun" } },
            { type: "number", minimum: -1, maximum: 16 },
          ],
        },
        { type: "number", minimum: 0.5, maximum: 12.5 },
      ],
    },
    accepts: ["0.25", "-1", "13", "15.5"],
    refuses: ["0.5", "5.2444636289588", "12.5", "17", '"Jun"'],
  },
  "one option may be what another is not": {
    schema: {
      oneOf: [
        { oneOf: [{ type: "string", pattern: '^[^"]{1,3}$' }, {}] },
        { type: "array", items: { type: "string" } },
      ],
    },
    accepts: ['""', '"abcd"', "1", "[1]"],
    refuses: ["[]", '"ab"', '["a"]'],
  },
  "exactly one of two required properties": {
    schema: {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "integer" } },
      oneOf: [{ required: ["a"] }, { required: ["b"] }],
    },
    accepts: ['{"a":1}', '{"b":2}'],
    refuses: ["{}", '{"a":1,"b":2}'],
  },
  "closed options that share a property": {
    schema: {
      oneOf: [
        {
          type: "object",
          properties: { kind: { type: "string" }, a: { type: "integer" } },
          required: ["kind"],
          additionalProperties: false,
        },
        {
          type: "object",
          properties: { kind: { type: "string" }, b: { type: "integer" } },
          required: ["kind"],
          additionalProperties: false,
        },
      ],
    },
    accepts: ['{"kind":"x","a":1}', '{"kind":"x","b":1}'],
    refuses: ['{"kind":"x"}', '{"kind":"x","a":1,"b":1}'],
  },
  "lengths of alternatives are kept apart": {
    schema: { type: "string", oneOf: [{ maxLength: 0 }, { minLength: 2 }] },
    accepts: ['""', '"ab"', '"abc"'],
    refuses: ['"a"'],
  },
  not: {
    schema: { type: ["string", "integer"], not: { enum: ["a", 3] } },
    accepts: ['"b"', "4", "33", '""'],
    refuses: ['"a"', "3"],
  },
  "not, of an object": {
    schema: {
      type: "object",
      properties: { a: { type: "integer" } },
      not: { required: ["a"], properties: { a: { minimum: 5 } } },
    },
    accepts: ["{}", '{"a":4}'],
    refuses: ['{"a":5}'],
  },
  "if, then, else": {
    schema: {
      type: "object",
      properties: { paid: { type: "boolean" }, by: { type: "string" } },
      required: ["paid"],
      if: { properties: { paid: { const: true } }, required: ["paid"] },
      ["then" as string]: { required: ["by"] },
      else: { properties: { by: false } },
    },
    accepts: ['{"paid":true,"by":"me"}', '{"paid":false}'],
    refuses: ['{"paid":true}', '{"paid":false,"by":"me"}'],
  },
  "dependencies, of names and of schemas": {
    schema: {
      type: "object",
      properties: { a: true, b: { type: "integer" }, c: true },
      dependencies: { a: ["b"] },
      dependentSchemas: { c: { properties: { b: { minimum: 3 } } } },
    },
    accepts: ["{}", '{"b":1}', '{"a":0,"b":1}', '{"a":0,"b":3,"c":0}', '{"c":0}'],
    refuses: ['{"a":0}', '{"b":1,"c":0}'],
  },
  "patterns beside a length, and two patterns": {
    schema: { type: "string", pattern: "^[a-z]+$", minLength: 2, maxLength: 4, allOf: [{ pattern: "b" }] },
    accepts: ['"ab"', '"cabd"'],
    refuses: ['"b"', '"abcde"', '"ac"', '"aB"'],
  },
  "a length that the pattern reaches only in steps": {
    schema: { type: "string", pattern: "^(?:ab)*$", minLength: 3, maxLength: 7 },
    accepts: ['"abab"', '"ababab"'],
    refuses: ['""', '"ab"', '"aba"', '"abababab"'],
  },
  "patterns of names beside names and others": {
    schema: {
      type: "object",
      properties: { fox: { type: "integer" } },
      patternProperties: { "^f": { minimum: 3 }, o$: { type: "number" } },
      additionalProperties: { type: "null" },
    },
    accepts: ['{"fox":4}', '{"fy":4}', '{"ho":1.5}', '{"fo":3.5}', '{"z":null}', "{}"],
    refuses: ['{"fox":2}', '{"fox":3.5}', '{"fy":2}', '{"ho":"s"}', '{"fo":2}', '{"fo":"s"}', '{"z":1}'],
  },
  "names of properties": {
    schema: { type: "object", propertyNames: { pattern: "^[a-z]{2}$" }, additionalProperties: { type: "integer" } },
    accepts: ["{}", '{"de":1,"fr":2}'],
    refuses: ['{"x":1}', '{"deu":1}', '{"DE":1}'],
  },
  "a number of properties": {
    schema: {
      type: "object",
      properties: { a: { type: "null" }, b: { type: "null" }, c: { type: "null" } },
      minProperties: 1,
      maxProperties: 2,
    },
    accepts: ['{"a":null}', '{"a":null,"c":null}', '{"c":null}'],
    refuses: ["{}", '{"a":null,"b":null,"c":null}'],
  },
  multiples: {
    schema: { type: "number", multipleOf: 0.25, minimum: -1, maximum: 100 },
    accepts: ["0", "0.25", "-0.5", "99.75", "100", "7.50"],
    refuses: ["0.2", "0.255", "101", "-1.25", "100.25"],
  },
  "multiples of two numbers": {
    schema: { type: "integer", multipleOf: 4, allOf: [{ multipleOf: 6 }] },
    accepts: ["0", "12", "-24", "120"],
    refuses: ["4", "6", "8", "13"],
  },
  "listed items that differ": {
    schema: { type: "array", items: { enum: ["a", "b", 1] }, uniqueItems: true, minItems: 2 },
    accepts: ['["a","b"]', '["b","a"]', '[1,"b","a"]'],
    refuses: ['["a"]', '["a","a"]', '["a","b","a"]'],
  },
  "many listed items that differ keep their order": {
    schema: { type: "array", items: { enum: COLOURS }, uniqueItems: true, maxItems: 2 },
    accepts: ["[]", '["teal"]', '["red","teal"]'],
    refuses: ['["teal","red"]', '["red","red"]', '["red","green","blue"]'],
  },
  "listed values that break another keyword": {
    schema: {
      enum: ["ab", "abc", 5, { a: 1 }, { a: "x" }, [1, 1]],
      maxLength: 2,
      properties: { a: { type: "integer" } },
      uniqueItems: true,
    },
    accepts: ['"ab"', "5", '{"a":1}'],
    refuses: ['"abc"', '{"a":"x"}', "[1,1]"],
  },
};

describe("schemas that ask for more than a grammar says by itself", () => {
  test.each(Object.entries(CASES))("%s", async (_, { schema, accepts, refuses }) => {
    const accepted = await matcher.compile({ kind: "schema", schema });
    for (const text of [...accepts, ...refuses])
      expect({ text, accepted: await accepted(text) }).toEqual({ text, accepted: accepts.includes(text) });
  });

  test("rejects a choice of which no option can stand alone", async () => {
    await expect(
      matcher.compile({ kind: "schema", schema: { oneOf: [{ type: "string" }, { enum: ["a"] }, { type: "string" }] } }),
    ).rejects.toThrow("a contradiction");
  });

  test("rejects what has no opposite that can be told, by name", async () => {
    await expect(
      matcher.compile({
        kind: "schema",
        schema: { type: "object", not: { patternProperties: { "^a": { type: "string" } } } },
      }),
    ).rejects.toThrow("schema.not: ");
  });
});
