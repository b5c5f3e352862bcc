// Schemas against values: what the rules accept satisfies the schema, by a reader of schemas that shares nothing with them;
// and of what satisfies it, they accept what is listed here.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { GrammarError } from "../../errors.js";
import { compileGrammar } from "../compile-grammar.js";
import { grammarNetwork } from "../compile-grammar.js";
import { ByteMatcher } from "../testing/byte-matcher.js";
import { violation } from "../testing/schema-validator.js";

const matcher = new ByteMatcher();
const complaint = (schema: unknown): string => {
  try {
    grammarNetwork({ kind: "schema", schema });
    return "";
  } catch (error) {
    return `${(error as GrammarError).code} ${(error as GrammarError).message}`;
  }
};

interface Pair {
  readonly schema: unknown;
  readonly accepts: readonly unknown[];
  readonly refuses: readonly unknown[];
}

const TUPLE = { prefixItems: [{ type: "integer" }, { type: "string" }], items: false };
const NAME = "n".repeat(4000);
const NODE = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };

const PAIRS: Readonly<Record<string, Pair>> = {
  "a tuple beside nothing": {
    schema: { allOf: [TUPLE, {}] },
    accepts: [[], [1], [1, "a"]],
    refuses: [["a"], [1, 2], [1, "a", 2]],
  },
  "items and places in parts that hold together": {
    schema: {
      items: { const: 1 },
      allOf: [{ prefixItems: [{ type: ["boolean", "integer"] }], items: { type: "integer" } }],
    },
    accepts: [[], [1], [1, 1]],
    refuses: [[true], [2], [1, 2]],
  },
  "places of two parts": {
    schema: {
      allOf: [
        { prefixItems: [{ minimum: 1 }], items: { maximum: 5 } },
        { prefixItems: [{ type: "integer" }, { type: "integer" }, { type: "number" }] },
      ],
    },
    accepts: [
      [7, 5, 5],
      [1, 2],
    ],
    refuses: [[0], [1, 6], [1, 2, 6], [1.5]],
  },
  "one tuple closed": {
    schema: { allOf: [{ prefixItems: [true], items: false }, { prefixItems: [{ type: "null" }, { type: "null" }] }] },
    accepts: [[], [null]],
    refuses: [[null, null], [1]],
  },
  "a tuple of draft 7 in parts": {
    schema: {
      allOf: [{ items: [{ type: "integer" }], additionalItems: { type: "string" } }, { items: { enum: [1, "a"] } }],
    },
    accepts: [[1], [1, "a"]],
    refuses: [[2], [1, 1], ["a"]],
  },
  "items left unevaluated in a part": {
    schema: { allOf: [{ prefixItems: [true], unevaluatedItems: false }, { prefixItems: [true, true] }] },
    accepts: [[1]],
    refuses: [[1, 2]],
  },
  "a required name that is not mentioned": {
    schema: { type: "object", properties: { a: {} }, required: ["a", "b"] },
    accepts: [{ a: 1, b: [] }],
    refuses: [{ a: 1 }, { b: 1 }],
  },
  "a required name of additional properties": {
    schema: { type: "object", properties: { a: true }, required: ["b"], additionalProperties: { type: "integer" } },
    accepts: [{ b: 1 }, { a: "x", b: 1, c: 2 }],
    refuses: [{ a: 1 }, { b: "x" }],
  },
  "bounds of draft 4 that hold together": {
    schema: {
      type: "integer",
      allOf: [
        { minimum: 3, exclusiveMinimum: true },
        { minimum: 1, exclusiveMinimum: true },
        { maximum: 9, exclusiveMaximum: false },
      ],
    },
    accepts: [4, 9],
    refuses: [3, 2, 10],
  },
  "a type that is nullable in one part": {
    schema: { allOf: [{ type: "string", nullable: true }, { type: ["string", "null"] }] },
    accepts: [null, "a"],
    refuses: [1],
  },
  "a type that is nullable alone": {
    schema: { allOf: [{ type: "string", nullable: true }, { type: "string" }] },
    accepts: ["a"],
    refuses: [null],
  },
  "a reference that is nullable": {
    schema: { $defs: { d: NODE }, nullable: true, $ref: "#/$defs/d" },
    accepts: [null, { a: 1 }],
    refuses: [{}, 1],
  },
  "parts that are nullable": {
    schema: { $defs: { d: NODE }, nullable: true, allOf: [{ $ref: "#/$defs/d" }] },
    accepts: [null, { a: 1 }],
    refuses: [{}, 1],
  },
  "a choice that is nullable": {
    schema: { $defs: { d: NODE }, nullable: true, anyOf: [{ $ref: "#/$defs/d" }, { type: "string" }] },
    accepts: [null, { a: 1 }, "a"],
    refuses: [{}, 1],
  },
  "parts that are nullable beside a type": {
    schema: { $defs: { d: NODE }, type: "object", nullable: true, allOf: [{ $ref: "#/$defs/d" }] },
    accepts: [null, { a: 1 }],
    refuses: [{}, 1],
  },
  "parts that are nullable in one part": {
    schema: { allOf: [{ nullable: true, allOf: [{ type: "string" }] }, { type: "string" }] },
    accepts: ["a"],
    refuses: [null],
  },
  "parts that are nullable beside a list": {
    schema: { nullable: true, enum: ["a"], allOf: [{ type: "string" }] },
    accepts: ["a"],
    refuses: [null, "b"],
  },
  "parts that are nullable inside themselves": {
    schema: { type: "object", properties: { next: { nullable: true, allOf: [{ $ref: "#" }] } }, required: ["next"] },
    accepts: [{ next: null }, { next: { next: null } }],
    refuses: [{}, { next: {} }, null],
  },
  "keywords that are null": {
    schema: {
      type: "object",
      properties: {
        a: { type: "string", properties: null, enum: null, minLength: null, not: null, anyOf: null },
        b: { type: "array", items: null },
      },
      additionalProperties: null,
      required: null,
    },
    accepts: [{}, { a: "x", b: [1, "a"] }],
    refuses: [{ a: 1 }, { b: 1 }, []],
  },
  "keywords that are null beside a reference": {
    schema: { $defs: { d: NODE }, $ref: "#/$defs/d", properties: null, allOf: null },
    accepts: [{ a: 1 }],
    refuses: [{}, null],
  },
  "additional properties that are null": {
    schema: { type: "object", additionalProperties: null },
    accepts: [{}, { a: null }],
    refuses: [null],
  },
  "null as a constant": { schema: { const: null, enum: [null, 1] }, accepts: [null], refuses: [1] },
  "listed objects that are closed": {
    schema: { enum: [{}, { a: 1 }, 3], additionalProperties: false },
    accepts: [{}, 3],
    refuses: [{ a: 1 }],
  },
  "listed objects beside the names that may be there": {
    schema: {
      enum: [{}, { a: 1 }, { a: 1, b: 2 }, { c: 1 }],
      properties: { a: true, b: {}, d: { type: "string" } },
      additionalProperties: false,
    },
    accepts: [{}, { a: 1 }, { a: 1, b: 2 }],
    refuses: [{ c: 1 }],
  },
  "listed objects that are closed in parts": {
    schema: { const: { a: 1 }, allOf: [{ properties: { a: true } }], unevaluatedProperties: false },
    accepts: [{ a: 1 }],
    refuses: [{}],
  },
  "properties left unevaluated beside parts": {
    schema: {
      type: "object",
      allOf: [{ properties: { a: { type: "integer" } } }],
      properties: { b: { type: "integer" } },
      unevaluatedProperties: false,
    },
    accepts: [{}, { b: 1 }, { b: 1, a: 2 }],
    refuses: [{ c: 1 }, { a: "x" }],
  },
  "properties left unevaluated in a part": {
    schema: {
      type: "object",
      allOf: [
        { properties: { a: { type: "integer" } }, unevaluatedProperties: false },
        { properties: { b: { type: "integer" } } },
      ],
    },
    accepts: [{}, { a: 1 }],
    refuses: [{ b: 1 }, { a: 1, b: 1 }],
  },
  "patterns beside a part that is closed": {
    schema: {
      allOf: [
        { patternProperties: { "^x": { type: "integer" } }, additionalProperties: false },
        { type: "object", additionalProperties: false },
      ],
    },
    accepts: [{}],
    refuses: [{ x: 1 }],
  },
  "a list beside counts": {
    schema: {
      enum: [[], [1], [1, 2], {}, { a: 1 }, { a: 1, b: 2 }, "", "abc", 3, null],
      minItems: 1,
      maxItems: 1,
      minProperties: 1,
      required: ["a"],
      maxProperties: 1,
      minLength: 1,
      maximum: 2,
    },
    accepts: [[1], { a: 1 }, "abc", null],
    refuses: [[], [1, 2], {}, { a: 1, b: 2 }, "", 3],
  },
  "a list beside what speaks of other types": {
    schema: { type: "string", enum: ["a", "b"], properties: { x: {} }, items: { type: "null" } },
    accepts: ["a", "b"],
    refuses: ["c"],
  },
  "a long name beside open properties": {
    schema: { type: "object", properties: { [NAME]: { type: "integer" } }, additionalProperties: { type: "null" } },
    accepts: [{ [NAME]: 1 }, { n: null }, { [NAME]: 1, other: null }, { [`${NAME.slice(0, 64)}x`]: null }],
    refuses: [{ [NAME]: null }, { n: 1 }],
  },
  "names that begin alike": {
    schema: {
      type: "object",
      properties: { a: { const: 1 }, ab: { const: 2 }, é: { const: 3 }, "\u0080": { const: 4 }, "😀": { const: 5 } },
      additionalProperties: { type: "null" },
    },
    accepts: [
      { a: 1, ab: 2, b: null },
      { abc: null },
      { "": null },
      { "😀😀": null, "é!": null, "\u0081": null, "\u{10ffff}": null },
    ],
    refuses: [{ a: null }, { ab: null }, { é: null }, { "\u0080": null }, { "😀": null }, { abc: 1 }],
  },
  "a property that only one part mentions": {
    schema: { allOf: [{ properties: { a: true } }, { type: "object", properties: {} }] },
    accepts: [{}, { a: 1 }],
    refuses: [[]],
  },
  "a chain of definitions": {
    schema: chain(500),
    accepts: [{ next: {} }, { next: { next: {} } }],
    refuses: [{ next: 1 }, []],
  },
  "a chain of references": { schema: references(500), accepts: ["end"], refuses: ["other"] },
  "numbers far apart": {
    schema: { type: "integer", minimum: 1.2345e300, maximum: 1.2345e308 },
    accepts: [],
    refuses: [1, 1.2344e300],
  },
  "64 bits": {
    schema: { type: "integer", minimum: 0, maximum: 9007199254740991 },
    accepts: [0, 9007199254740991, 1234567890123],
    refuses: [-1],
  },
  "all kinds of nothing": {
    schema: { anyOf: [{ type: "string", minLength: 3, maxLength: 2 }, { const: "yes" }] },
    accepts: ["yes"],
    refuses: ["no", "abc"],
  },
};

function chain(length: number): unknown {
  const definitions = Array.from({ length }, (_, index) => [
    `d${index}`,
    { type: "object", properties: { next: { $ref: `#/$defs/d${index + 1}` } } },
  ]);
  return { $defs: { ...Object.fromEntries(definitions), [`d${length}`]: { type: "object" } }, $ref: "#/$defs/d0" };
}

function references(length: number): unknown {
  const definitions = Array.from({ length }, (_, index) => [`d${index}`, { $ref: `#/$defs/d${index + 1}` }]);
  return { $defs: { ...Object.fromEntries(definitions), [`d${length}`]: { const: "end" } }, $ref: "#/$defs/d0" };
}

describe("schemas and values", () => {
  test.each(Object.entries(PAIRS))("%s", async (_, { schema, accepts, refuses }) => {
    const accepted = await matcher.compile({ kind: "schema", schema });
    for (const value of [...accepts, ...refuses]) {
      const [text, wrong] = [JSON.stringify(value), violation(schema, schema, value)];
      const shown = text.slice(0, 200);
      expect({ shown, accepted: await accepted(text) }).toEqual({ shown, accepted: accepts.includes(value) });
      expect({ shown, valid: wrong === undefined }).toEqual({ shown, valid: accepts.includes(value) });
    }
  });

  test("a long whole number is written with all its digits", async () => {
    const accepted = await matcher.compile({
      kind: "schema",
      schema: { type: "integer", minimum: 1.2345e300, maximum: 1.2345e308 },
    });
    for (const [digits, fits] of [
      [300, false],
      [301, true],
      [309, true],
      [310, false],
    ] as const) {
      expect({ digits, fits: await accepted("12345".padEnd(digits, "0")) }).toEqual({ digits, fits });
    }
  });

  test.each([
    [{ allOf: [{ enum: 5 }, { enum: [1] }] }, "schema.allOf[0].enum"],
    [{ allOf: [{ required: 5 }, { required: ["a"] }] }, "schema.allOf[0].required"],
    [{ allOf: [{ const: 1, enum: 3 }, { type: "number" }] }, "schema.allOf[0].enum"],
    [{ allOf: [{ properties: 5 }, { properties: {} }] }, "schema.allOf[0].properties"],
    [{ allOf: [{ minimum: "1" }, { minimum: 2 }] }, "schema.allOf[0].minimum"],
    [{ allOf: [{ minLength: -1 }, { minLength: 2 }] }, "schema.allOf[0].minLength"],
    [{ allOf: [{ prefixItems: 3 }, { items: true }] }, "schema.allOf[0].prefixItems"],
    [{ type: "object", propertyNames: { type: [] } }, "schema.propertyNames.type"],
    [{ type: null }, "schema.type"],
    [{ properties: { a: null } }, "schema.properties.a"],
    [{ prefixItems: [{}, {}], minItems: 3 }, "schema.items"],
    [{ enum: [{ a: 1 }], additionalProperties: { type: "string" } }, "schema"],
    [{ enum: [{ a: 1 }], properties: { a: { type: "string" } }, additionalProperties: false }, "schema"],
    [{ enum: [[1]], prefixItems: [{ type: "string" }] }, "schema"],
    [{ enum: [[1]], items: [], additionalItems: false }, "schema"],
  ])("rejects %j at its place", (schema, place) => {
    expect(complaint(schema)).toContain(`GRAMMAR_INVALID [grammar] ${place}: `);
  });

  test("draft 3's required is let through, in parts too", () => {
    expect(complaint({ allOf: [{ required: true }, { required: ["a"] }] })).toBe("");
    expect(complaint({ type: "object", propertyNames: { type: ["string", "null"] } })).toBe("");
  });

  test.each([
    [{ type: "string", minLength: 3, maxLength: 2 }],
    [{ allOf: [{ type: "string", minLength: 3 }, { maxLength: 2 }] }],
    [{ allOf: [{ type: "string", maxLength: 2 }, { type: "integer" }] }],
    [{ enum: [{ a: 1 }], additionalProperties: false }],
    [{ enum: [{ a: 1 }], unevaluatedProperties: false }],
  ])("rejects %j, which nothing satisfies", (schema) => {
    expect(complaint(schema)).toContain("contradiction");
  });
});

describe("random schemas that hold together", () => {
  const oneIn = <Value>(weight: number, arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> =>
    fc.oneof({ weight: weight - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
  const some = <Value>(arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> => oneIn(3, arbitrary);
  const name = fc.constantFrom("a", "b", "ab");
  const leaf = fc.oneof(
    fc.boolean(),
    fc.constantFrom<unknown>(
      {},
      { type: "integer" },
      { type: "null" },
      { minimum: 2 },
      { type: "number", maximum: 2, exclusiveMaximum: true },
      { enum: [1, "a", null] },
      { type: ["integer", "array"] },
      { const: 2 },
    ),
  );
  const part = fc
    .record({
      type: some(fc.constantFrom<unknown>("object", "array", ["object", "array", "integer"], "integer", "string")),
      nullable: some(fc.boolean()),
      enum: oneIn(
        6,
        fc.array(fc.constantFrom<unknown>(1, 2, 3, "a", null, [1], [1, 2], { a: 1 }, { a: 1, b: 2 }, {}), {
          minLength: 1,
          maxLength: 6,
        }),
      ),
      properties: some(fc.dictionary(name, leaf, { maxKeys: 2 })),
      required: some(fc.uniqueArray(name, { maxLength: 1 })),
      additionalProperties: some(leaf),
      unevaluatedProperties: oneIn(6, fc.boolean()),
      patternProperties: oneIn(9, fc.constant({ "^a": { type: "integer" } })),
      minProperties: oneIn(6, fc.constant(1)),
      prefixItems: some(fc.array(leaf, { maxLength: 2 })),
      items: some(leaf),
      minItems: oneIn(6, fc.nat(2)),
      maxItems: oneIn(6, fc.nat(2)),
      minimum: some(fc.nat(3)),
      exclusiveMinimum: oneIn(6, fc.oneof(fc.boolean(), fc.nat(3))),
      maximum: some(fc.integer({ min: 2, max: 4 })),
    })
    .map((keywords) => Object.fromEntries(Object.entries(keywords).filter(([, value]) => value !== undefined)));
  const combined = fc.oneof(
    part,
    fc.record({ allOf: fc.array(part, { minLength: 1, maxLength: 3 }) }),
    fc.tuple(part, fc.array(part, { minLength: 1, maxLength: 2 })).map(([base, parts]) => ({ ...base, allOf: parts })),
    fc.tuple(part, fc.array(part, { minLength: 1, maxLength: 2 })).map(([base, parts]) => ({ ...base, anyOf: parts })),
    fc
      .tuple(part, part, part)
      .map(([base, inner, more]) => ({ ...base, $defs: { d: { ...inner, allOf: [more] } }, $ref: "#/$defs/d" })),
  );
  const scalar = fc.constantFrom<unknown>(0, 1, 2, 3, 4, null, "a", true);
  const listOfScalars = fc.array(scalar, { maxLength: 3 });
  const object = fc
    .uniqueArray(fc.constantFrom("a", "ab", "b", "c"), { maxLength: 3 })
    .chain((names) => fc.record(Object.fromEntries(names.map((key) => [key, fc.oneof(scalar, listOfScalars)]))));

  test("accept nothing that does not satisfy them", async () => {
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(
        combined,
        fc.array(fc.oneof(scalar, listOfScalars, object), { minLength: 25, maxLength: 25 }),
        async (schema, values) => {
          if (complaint(schema) !== "") return;
          const accepts = await matcher.compile({ kind: "schema", schema });
          for (const value of values) {
            if (!(await accepts(JSON.stringify(value)))) continue;
            accepted++;
            expect({ value, wrong: violation(schema, schema, value) }).toEqual({ value, wrong: undefined });
          }
        },
      ),
      { numRuns: 400 },
    );
    expect(accepted).toBeGreaterThan(100);
  });
});

describe("hostile schemas", () => {
  const LONG = "x".repeat(220_000);
  const many = (count: number, make: (index: number) => unknown): readonly unknown[] =>
    Array.from({ length: count }, (_, index) => make(index));
  const named = (
    count: number,
    make: (index: number) => unknown,
    name = (index: number): string => `p${index}`,
  ): unknown => Object.fromEntries(Array.from({ length: count }, (_, index) => [name(index), make(index)]));

  test.each([
    [
      "merging what is large with many",
      {
        allOf: [
          { properties: named(5000, () => ({ minimum: 1 })) },
          { anyOf: many(200, (index) => ({ properties: { p1: { maximum: index } } })) },
        ],
      },
    ],
    [
      "merging a large list with many",
      {
        $defs: { list: { enum: many(9000, (index) => index) } },
        allOf: many(3000, () => ({ $ref: "#/$defs/list", type: "integer" })),
      },
    ],
    [
      "the same large object for many alternatives",
      { properties: named(5000, () => true), anyOf: many(200, (index) => ({ maxProperties: 5000 + index })) },
    ],
    [
      "the same large list for many alternatives",
      { enum: many(15_000, (index) => index), anyOf: many(200, (index) => ({ minLength: index })) },
    ],
    [
      "places of a list for many alternatives",
      { prefixItems: many(15_000, () => true), anyOf: many(200, (index) => ({ maxItems: 15_000 + index })) },
    ],
    [
      "merging a long text in a list with many",
      { $defs: { d: { enum: [LONG, 1] } }, allOf: many(500, () => ({ $ref: "#/$defs/d" })) },
    ],
    [
      "merging a long constant with many",
      { $defs: { d: { const: LONG } }, allOf: many(500, () => ({ $ref: "#/$defs/d" })) },
    ],
    [
      "merging long patterns of names with many",
      {
        $defs: { d: { patternProperties: { "^a": { description: LONG } } } },
        allOf: many(500, () => ({ $ref: "#/$defs/d" })),
      },
    ],
    [
      "different bounds of numbers",
      {
        properties: named(4500, (index) => ({
          type: "number",
          minimum: -1.234567890123456e-5 * (index + 1),
          maximum: 1.234567890123456e300 * (index + 1),
        })),
      },
    ],
    [
      "long names beside open properties",
      {
        properties: named(
          2000,
          () => true,
          (index) => `${index}${"x".repeat(120)}`,
        ),
        additionalProperties: true,
      },
    ],
    ["properties counted high", { type: "object", maxProperties: 100_000 }],
    ["properties counted low", { type: "object", additionalProperties: true, minProperties: 1, maxProperties: 70_000 }],
    ["names of places in messages", { properties: { ["x".repeat(200_000)]: { maxItems: 100_000, type: "array" } } }],
  ])("rejects too much of %s", (_, schema) => {
    const message = complaint(schema);
    expect(message.slice(0, 13)).toBe("GRAMMAR_LIMIT");
    expect(message.length).toBeLessThan(1000);
  });

  test("rejects a text that comes to too many states, and no other: rules are compiled when a text comes to them", () => {
    const properties = named(60, (index) => ({ type: "string", pattern: `^${index}${".".repeat(4000)}$` }));
    const { automaton } = compileGrammar({ kind: "schema", schema: { type: "object", properties } });
    const pairs = Object.keys(properties as object).map(
      (name, index) => `${JSON.stringify(name)}:"${index}${"x".repeat(4000)}"`,
    );
    const walk = (count: number): boolean | undefined =>
      automaton.walk(automaton.start, Buffer.from(`{${pairs.slice(0, count).join(",")}}`))?.accepting;
    expect(walk(2)).toBe(true);
    expect(() => walk(60)).toThrow("a grammar of states up to");
  });

  test("nothing is made of alternatives that say nothing", () => {
    const schema = {
      allOf: [{ properties: named(5000, () => true) }, { anyOf: many(256, () => ({})) }, ...many(14_000, () => true)],
    };
    expect(complaint(schema)).toBe("");
    expect(complaint({ allOf: [...schema.allOf, false] })).toContain("contradiction");
  });

  test("the budget is one for all forms", () => {
    const bounds = (form: number): unknown =>
      named(100, (index) => ({ type: "integer", minimum: index, maximum: 1e15 + 100 * form + index }));
    const forms = (count: number) =>
      Array.from({ length: count }, (_, form) => ({
        prefix: "",
        schema: { type: "object", properties: bounds(form) },
        suffix: "",
      }));
    expect(() => grammarNetwork({ kind: "forms", forms: forms(2) })).not.toThrow();
    expect(() => grammarNetwork({ kind: "forms", forms: forms(100) })).toThrow("parts of a schema");
  });

  test("numbers with the same bounds have one rule", () => {
    const schema = {
      type: "object",
      properties: named(2000, () => ({
        type: "integer",
        minimum: Number.MIN_SAFE_INTEGER,
        maximum: Number.MAX_SAFE_INTEGER,
      })),
    };
    expect(complaint(schema)).toBe("");
  });
});
