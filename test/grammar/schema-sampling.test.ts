// Whatever is drawn from a schema's masks is JSON and satisfies the schema.

import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { GrammarCompiler } from "../../src/grammar/worker/grammar-compiler.js";
import { violation } from "../../src/grammar/testing/schema-validator.js";
import { Dice } from "../support/dice.js";
import { drawText, embeddedTokenizer } from "./sampling.js";

const tokenizer = await embeddedTokenizer();
const compiler = new GrammarCompiler(tokenizer, { threads: 1 });
afterAll(() => compiler[Symbol.asyncDispose]());

const TEXTS = 12;

const FORMATS = [
  "date",
  "time",
  "date-time",
  "duration",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "uuid",
  "uri",
  "json-pointer",
  "unknown-format",
];

const SCHEMAS: Readonly<Record<string, unknown>> = {
  anything: {},
  true: true,
  object: { type: "object" },
  person: {
    type: "object",
    properties: {
      name: { type: "string" },
      age: { type: "integer", minimum: 0, maximum: 150 },
      email: { type: "string", format: "email" },
    },
    required: ["name", "age"],
    additionalProperties: false,
  },
  "optional properties only": {
    type: "object",
    properties: { a: { type: "null" }, b: { type: "boolean" }, c: { type: "integer" } },
  },
  "required in between": {
    type: "object",
    properties: { a: { type: "null" }, b: { const: 1 }, c: { type: "null" }, d: { const: 2 }, e: { type: "null" } },
    required: ["b", "d"],
  },
  "additional properties of a schema": {
    type: "object",
    properties: { a: { type: "integer" }, ab: { type: "integer" } },
    additionalProperties: { type: "boolean" },
  },
  "a map": {
    type: "object",
    additionalProperties: { type: "array", items: { type: "integer" } },
    minProperties: 1,
    maxProperties: 3,
  },
  "pattern properties": {
    type: "object",
    patternProperties: { "^x-[a-z]+$": { type: "integer" } },
    additionalProperties: false,
  },
  "required without properties": { type: "object", required: ["id"] },
  "odd names": {
    type: "object",
    properties: { 'a"b\\c': { type: "null" }, "é😀\n": { type: "null" }, "": { type: "null" } },
    required: ['a"b\\c', "é😀\n"],
    additionalProperties: { type: "integer" },
  },
  enum: { enum: ["a", "ab", 'q"uote', 1, -2.5, null, true, { x: [1] }, "é\n"] },
  "enum of a type": { type: "string", enum: ["a", 1, "bcd", "e"], maxLength: 2 },
  const: { const: { a: ["b", 1, { c: null }] } },
  integers: {
    type: "array",
    items: { type: "integer", exclusiveMinimum: -13, maximum: 1205 },
    minItems: 3,
    maxItems: 5,
  },
  numbers: {
    type: "array",
    items: { type: "number", minimum: -1.25, exclusiveMaximum: 3.005 },
    minItems: 3,
    maxItems: 5,
  },
  "numbers above": { type: "array", items: { type: "number", exclusiveMinimum: 0 }, minItems: 3, maxItems: 5 },
  "any numbers": { type: "array", items: { type: "number" }, minItems: 2, maxItems: 4 },
  "string lengths": {
    type: "object",
    properties: {
      short: { type: "string", minLength: 1, maxLength: 3 },
      exact: { type: "string", minLength: 7, maxLength: 7 },
      long: { type: "string", minLength: 20 },
      none: { type: "string", maxLength: 0 },
    },
    required: ["short", "exact", "long", "none"],
  },
  "lengths in a union": {
    type: "array",
    items: {
      anyOf: [{ type: "string", maxLength: 4 }, { type: "string", minLength: 2, maxLength: 30 }, { type: "integer" }],
    },
    minItems: 4,
    maxItems: 6,
  },
  "long lengths": { type: "string", minLength: 60, maxLength: 2000 },
  pattern: {
    type: "array",
    items: { type: "string", pattern: '^[A-Z]{2}-\\d{3}(?:/[é"\\\\]+)?$' },
    minItems: 2,
    maxItems: 3,
  },
  "a pattern that is only found": { type: "string", pattern: "[a-m][0-9]" },
  formats: {
    type: "object",
    properties: Object.fromEntries(FORMATS.map((format) => [format, { type: "string", format }])),
    required: FORMATS,
  },
  tuple: {
    type: "array",
    prefixItems: [{ type: "integer" }, { type: "string" }],
    items: { type: "boolean" },
    minItems: 1,
    maxItems: 5,
  },
  "tuple of draft 7": { type: "array", items: [{ type: "integer" }, { type: "null" }], additionalItems: false },
  "tuple alone": { type: "array", prefixItems: [{ const: 1 }, { const: 2 }, { const: 3 }], minItems: 3 },
  "several types": { type: ["integer", "null", "array"], minimum: 5, items: { type: "boolean" } },
  nullable: { type: "string", nullable: true, maxLength: 5 },
  "keywords without a type": { properties: { a: { minimum: 3 } }, required: ["a"] },
  "any of": {
    anyOf: [
      {
        type: "object",
        properties: { kind: { const: "circle" }, radius: { type: "number", exclusiveMinimum: 0 } },
        required: ["kind", "radius"],
      },
      {
        type: "object",
        properties: { kind: { const: "square" }, side: { type: "integer" } },
        required: ["kind", "side"],
      },
    ],
  },
  "any of beside keywords": {
    type: "object",
    properties: { a: { type: "integer" }, b: { type: "integer" } },
    anyOf: [{ required: ["a"] }, { required: ["b"] }],
  },
  "all of": {
    allOf: [
      { type: "object", properties: { a: { type: "integer", minimum: 3 } }, required: ["a"] },
      { properties: { a: { maximum: 9 }, b: { type: "string", maxLength: 3 } }, required: ["b"] },
    ],
  },
  "all of, one closed": {
    allOf: [
      { type: "object", properties: { a: { type: "integer" } }, additionalProperties: false },
      { properties: { b: { type: "string" } } },
    ],
  },
  "a reference beside keywords": {
    $defs: { small: { type: "integer", minimum: 0 } },
    type: "array",
    items: { $ref: "#/$defs/small", maximum: 9 },
    minItems: 2,
    maxItems: 4,
  },
  "recursion through a list": {
    $defs: {
      node: {
        type: "object",
        properties: {
          value: { type: "integer" },
          children: { type: "array", items: { $ref: "#/$defs/node" }, maxItems: 2 },
        },
        required: ["value"],
      },
    },
    $ref: "#/$defs/node",
  },
  "recursion to the root": {
    type: "object",
    properties: { next: { anyOf: [{ $ref: "#" }, { type: "null" }] } },
    required: ["next"],
  },
  "parts with places and items": {
    type: "array",
    items: { type: "integer", maximum: 9 },
    allOf: [{ prefixItems: [{ minimum: 5 }, { enum: [1, 2, 30] }], minItems: 2 }],
    maxItems: 4,
  },
  "parts that are closed": {
    type: "object",
    allOf: [
      { properties: { a: { type: "integer" } }, required: ["a"], unevaluatedProperties: false },
      { properties: { a: { minimum: 4 }, b: true } },
    ],
  },
  "bounds beyond what is counted": {
    type: "array",
    items: {
      anyOf: [
        { type: "integer", minimum: 1e15, maximum: 2.5e21 },
        { type: "number", exclusiveMinimum: -1e18, exclusiveMaximum: 1e-20 },
      ],
    },
    minItems: 3,
    maxItems: 5,
  },
  "names beside a mentioned one": {
    type: "object",
    properties: { name: { type: "integer" }, näme: { type: "integer" } },
    required: ["other"],
    additionalProperties: { type: "boolean" },
  },
  "definitions with slashes": { definitions: { "a/b~c": { const: "found" } }, $ref: "#/definitions/a~1b~0c" },
};

/** What the standards say, as another reader of them would. */
const FORMAT_CHECKS: Readonly<Record<string, (text: string) => boolean>> = {
  date: (text) => new Date(`${text}T00:00:00Z`).toISOString().startsWith(text),
  "date-time": (text) => !Number.isNaN(Date.parse(text)),
  time: (text) => !Number.isNaN(Date.parse(`2020-01-01T${text}`)),
  uri: (text) => URL.canParse(text) || /:\d{5}/.test(text),
  ipv6: (text) => URL.canParse(`http://[${text}]/`),
  ipv4: (text) => new URL(`http://${text}/`).hostname === text,
  uuid: (text) => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text),
};

describe("texts drawn from a schema's masks", () => {
  test.each(Object.entries(SCHEMAS))("%s", async (name, schema) => {
    const grammar = await compiler.compile({ kind: "schema", schema });
    const dice = new Dice(7);
    for (let count = 0; count < TEXTS; count++) {
      const { text } = await drawText(tokenizer, grammar, dice);
      const value = JSON.parse(text) as unknown;
      expect({ text, wrong: violation(schema, schema, value) }).toEqual({ text, wrong: undefined });
      if (name !== "formats") continue;
      for (const [format, check] of Object.entries(FORMAT_CHECKS)) {
        const found = (value as Readonly<Record<string, string>>)[format] as string;
        expect({ format, found, right: check(found) }).toEqual({ format, found, right: true });
      }
    }
  });

  test("json is an object", async () => {
    const grammar = await compiler.compile({ kind: "json" });
    const dice = new Dice(3);
    for (let count = 0; count < TEXTS; count++) {
      const value = JSON.parse((await drawText(tokenizer, grammar, dice)).text) as unknown;
      expect(typeof value === "object" && value !== null && !Array.isArray(value)).toBe(true);
    }
  });
});

const name = fc.constantFrom("a", "b", "ab", "name", "é", 'q"', "x y");
const bound = fc.integer({ min: -500, max: 500 });
const schemas = fc.letrec<{ schema: unknown; leaf: unknown }>((tie) => ({
  leaf: fc.oneof(
    fc.constantFrom<unknown>(
      { type: "null" },
      { type: "boolean" },
      { type: "string" },
      { type: "integer" },
      { type: "number" },
      true,
    ),
    fc.record({ type: fc.constant("integer"), minimum: bound, maximum: bound.map((value) => value + 1000) }),
    fc.record({
      type: fc.constant("number"),
      exclusiveMinimum: bound.map((value) => value / 8),
      exclusiveMaximum: bound.map((value) => 501 + value / 8),
    }),
    fc.record({ type: fc.constant("string"), minLength: fc.nat(6), maxLength: fc.integer({ min: 6, max: 12 }) }),
    fc.record({
      type: fc.constant("string"),
      pattern: fc.constantFrom("^[a-f]+$", "^\\d{2,4}$", "[x-z].", "^(?:a|\\\\)*$"),
    }),
    fc.record({
      enum: fc.array(fc.oneof(fc.string({ maxLength: 5 }), fc.integer(), fc.constant(null)), {
        minLength: 1,
        maxLength: 5,
      }),
    }),
  ),
  schema: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    tie("leaf"),
    fc.record({
      type: fc.constant("array"),
      items: tie("schema"),
      minItems: fc.nat(2),
      maxItems: fc.integer({ min: 2, max: 3 }),
    }),
    fc
      .record({
        properties: fc.dictionary(name, tie("schema"), { maxKeys: 4 }),
        needed: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
        additional: fc.option(fc.oneof(fc.boolean(), tie("leaf")), { nil: undefined }),
      })
      .map(({ properties, needed, additional }) => ({
        type: "object",
        properties,
        required: Object.keys(properties).filter((_, index) => needed[index]),
        ...(additional === undefined ? {} : { additionalProperties: additional }),
      })),
    fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
    fc.record({
      allOf: fc.tuple(
        fc.record({ properties: fc.dictionary(name, tie("leaf"), { maxKeys: 2 }) }),
        fc.record({ type: fc.constant("object"), properties: fc.dictionary(name, fc.constant(true), { maxKeys: 2 }) }),
      ),
    }),
  ),
}));

test("texts drawn from random schemas satisfy them", async () => {
  await fc.assert(
    fc.asyncProperty(schemas.schema, fc.nat(), async (schema, seed) => {
      const grammar = await compiler.compile({ kind: "schema", schema });
      const dice = new Dice(seed);
      for (let count = 0; count < 3; count++) {
        const { text } = await drawText(tokenizer, grammar, dice);
        expect({ text, wrong: violation(schema, schema, JSON.parse(text)) }).toEqual({ text, wrong: undefined });
      }
    }),
    { numRuns: 120 },
  );
});
