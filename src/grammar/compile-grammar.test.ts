import { describe, expect, test } from "vitest";
import type { GrammarError } from "../errors.js";
import { compileGrammar } from "./compile-grammar.js";
import type { GrammarSpec } from "./grammar-spec.js";
import { ByteMatcher } from "./testing/byte-matcher.js";
import { grammarNetwork } from "./compile-grammar.js";

function complaint(spec: GrammarSpec): { readonly code: string; readonly message: string } {
  try {
    grammarNetwork(spec);
  } catch (error) {
    const { code, message } = error as GrammarError;
    return { code, message };
  }
  return { code: "", message: "" };
}
const schema = (value: unknown): GrammarSpec => ({ kind: "schema", schema: value });
const nested = (levels: number): unknown =>
  levels === 0 ? { type: "string" } : { type: "array", items: nested(levels - 1) };

describe("a thought", () => {
  const rest: GrammarSpec = { kind: "regex", pattern: "[0-9]" };
  const accepts = (spec: GrammarSpec, ...texts: readonly string[]): Promise<readonly boolean[]> =>
    new ByteMatcher().compile(spec).then((matches) => Promise.all(texts.map(matches)));

  test("is any text up to its end, and the rest follows the grammar", async () => {
    const opened: GrammarSpec = { kind: "thought", close: "</t>", rest };
    expect(await accepts(opened, "</t>7", "Hm. <t> </ t> ü\n</t>\n\n7", "a</t>\n7")).toStrictEqual([true, true, true]);
    expect(await accepts(opened, "7", "a</t>", "a</t>x</t>7", "a</t>\n\n\n7")).toStrictEqual([
      false,
      false,
      false,
      false,
    ]);
  });

  test("that the model opens is left out or closed", async () => {
    const own: GrammarSpec = { kind: "thought", open: "<t>", close: "</t>", rest };
    expect(await accepts(own, "7", "<t>a</t>7", "<t></t>\n7")).toStrictEqual([true, true, true]);
    expect(await accepts(own, "<t>7", "a</t>7", "<t>a</t>")).toStrictEqual([false, false, false]);
  });
});

describe("a series of forms", () => {
  const form = (name: string) => ({ prefix: `${name}(`, schema: { type: "integer" }, suffix: ")" });
  const series = { open: "[", separator: ", ", close: "]", forms: [form("a"), form("b")] };

  test("has at least one of them, and an end", async () => {
    const matches = await new ByteMatcher().compile({ kind: "forms", forms: [form("c")], series });
    const texts = ["c(1)", "[a(1)]", "[a(1), b(2), a(3)]", "[]", "[a(1)b(2)]", "[c(1)]", "[a(1), ]", "[a(1)"];
    expect(await Promise.all(texts.map(matches))).toStrictEqual([true, true, true, false, false, false, false, false]);
    const many = (count: number): string => `[${Array.from({ length: count }, () => "a(1)").join(", ")}]`;
    expect([await matches(many(32)), await matches(many(33))]).toStrictEqual([true, false]);
    expect(complaint({ kind: "forms", forms: [], series: { ...series, forms: [] } }).code).toBe("GRAMMAR_INVALID");
  });
});

describe("schemas", () => {
  test.each([
    [{ multipleOf: 0, type: "number" }, "schema.multipleOf", "above 0"],
    [{ type: "array", uniqueItems: true }, "schema.uniqueItems", "uniqueItems"],
    [{ anyOf: [{ type: "string" }, { type: "array", contains: {} }] }, "schema.anyOf[1].contains", '"contains"'],
    [{ type: "wrong" }, "schema.type", '"wrong"'],
    [{ type: ["string", "wrong"] }, "schema.type", '"wrong"'],
    [{ type: "string", minLength: -1 }, "schema.minLength", "-1"],
    [{ type: "string", maxLength: 2.5 }, "schema.maxLength", "2.5"],
    [{ type: "integer", minimum: "1" }, "schema.minimum", '"1"'],
    [{ type: "string", pattern: "a(?=b)" }, "schema.pattern, character 2", "look around"],
    [{ $ref: "https://example.org/schema" }, "schema.$ref", "inside the schema"],
    [{ $ref: "#/$defs/none" }, "schema.$ref", "found nothing"],
    [{ properties: 3 }, "schema.properties", "expected an object, found 3"],
    [{ type: "object", required: "name" }, "schema.required", "a list"],
    [{ type: "object", properties: { a: 5 } }, "schema.properties.a", "expected a schema"],
    [{ type: "object", minProperties: 2 }, "schema.minProperties", "found 2"],
    [{ enum: ["a"], pattern: "b" }, "schema", "a contradiction"],
    ["text", "schema", 'expected a schema (an object, true or false), found "text"'],
    [null, "schema", "found nothing"],
  ])("rejects %j with its place and reason", (value, place, reason) => {
    const { code, message } = complaint(schema(value));
    expect(code).toBe("GRAMMAR_INVALID");
    expect(message).toContain(`[grammar] ${place}: `);
    expect(message).toContain(reason);
  });

  test.each([
    [false],
    [{ enum: [] }],
    [{ type: "integer", minimum: 5, maximum: 4 }],
    [{ allOf: [{ type: "string" }, { type: "number" }] }],
    [{ allOf: [{ const: 1 }, { const: 2 }] }],
    [{ type: "object", properties: { a: false }, required: ["a"] }],
    [{ type: "object", properties: { a: { type: "string" } }, required: ["b"], additionalProperties: false }],
    [{ $ref: "#" }],
    [{ type: "object", properties: { self: { $ref: "#" } }, required: ["self"] }],
    [{ type: "array", items: { $ref: "#" }, minItems: 1 }],
    [{ type: "array", minItems: 3, maxItems: 2 }],
  ])("rejects %j, which no finite text satisfies", (value) => {
    expect(complaint(schema(value))).toMatchObject({
      code: "GRAMMAR_INVALID",
      message: expect.stringContaining("contradiction or endless recursion"),
    });
  });

  test("an option that never ends is left out, and the rest is kept", () => {
    const { automaton } = compileGrammar(
      schema({
        anyOf: [
          { const: "yes" },
          { type: "object", properties: { again: { $ref: "#/anyOf/1" } }, required: ["again"] },
        ],
      }),
    );
    expect(automaton.walk(automaton.start, Buffer.from('"yes"'))?.accepting).toBe(true);
    expect(automaton.walk(automaton.start, Buffer.from("{"))).toBeNull();
  });

  test.each([
    ["levels", nested(500)],
    ["nodes", { enum: Array.from({ length: 30_000 }, (_, index) => index) }],
    ["characters", { const: "x".repeat(300_000) }],
    [
      "alternatives that multiply",
      { allOf: Array.from({ length: 20 }, () => ({ anyOf: [{ minLength: 1 }, { maxLength: 2 }] })) },
    ],
    ["items", { type: "array", maxItems: 100_000 }],
  ])("rejects too many %s as a limit, at once", (_, value) => {
    expect(complaint(schema(value)).code).toBe("GRAMMAR_LIMIT");
  });

  test("rejects a value that holds itself", () => {
    const circle: Record<string, unknown> = { type: "object" };
    circle["properties"] = { self: circle };
    expect(complaint(schema(circle)).code).toBe("GRAMMAR_LIMIT");
  });

  test.each([
    ["doubles", doubling("allOf", 40)],
    [
      "recurses",
      { $defs: { a: again("a", "b"), b: again("b", "a") }, allOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/b" }] },
    ],
  ])("merging that %s is done once for the same parts", (_, value) => {
    const { automaton } = compileGrammar(schema(value));
    expect(automaton.walk(automaton.start, Buffer.from("{}"))?.accepting).toBe(true);
    expect(automaton.network.states.length).toBeLessThan(1000);
  });

  test("names from Object's prototype are names like others", () => {
    const { automaton } = compileGrammar(
      schema(
        JSON.parse(
          '{"type":"object","properties":{"__proto__":{"type":"integer"},"constructor":{"type":"null"}},"required":["toString"],"additionalProperties":true}',
        ),
      ),
    );
    expect(
      automaton.walk(
        automaton.start,
        Buffer.from('{"__proto__": 1, "constructor": null, "toString": [], "valueOf": 2}'),
      )?.accepting,
    ).toBe(true);
    expect(automaton.walk(automaton.start, Buffer.from('{"__proto__": "x'))).toBeNull();
  });

  function again(one: string, other: string): unknown {
    const both = { allOf: [{ $ref: `#/$defs/${one}` }, { $ref: `#/$defs/${other}` }] };
    return { type: "object", properties: { x: both, y: both } };
  }

  function doubling(keyword: string, levels: number): unknown {
    const definitions = Array.from({ length: levels }, (_, level) => [
      `d${level}`,
      { [keyword]: [{ $ref: `#/$defs/d${level + 1}` }, { $ref: `#/$defs/d${level + 1}` }] },
    ]);
    return {
      $defs: { ...Object.fromEntries(definitions), [`d${levels}`]: { type: "object" } },
      $ref: "#/$defs/d0",
      title: "x",
      description: "y",
      type: "object",
    };
  }
});

describe("grammars", () => {
  const grammar = (text: string): GrammarSpec => ({ kind: "grammar", text });

  test.each([
    ["root ::= foo", 'line 1, column 10: expected a rule for every name, found no rule "foo"'],
    ["# nothing", 'expected a rule "root", found none'],
    ['other ::= "a"', 'expected a rule "root", found none'],
    ['root ::= "a"\nroot ::= "b"', 'line 2, column 1: expected one rule of a name, found a second "root"'],
    ['root ::= "a', 'line 1, column 10: expected a text with its closing "'],
    ["root ::= [a", 'expected a class with its closing "]"'],
    ['root ::= ("a"', 'expected ")", found the end'],
    ['root ::= "a")', 'column 13: expected the end of a rule, found ")"'],
    ['root = "a"', 'column 6: expected "::=", found "= \\"a\\""'],
    ["root ::= [z-a]", "expected a range of characters from low to high"],
    ['root ::= "a"{3,1}', "expected a repetition from few to many"],
    ['root ::= "\\q', "closing"],
    ['root ::= "\\xg"', "expected an escape"],
    ['root ::= "a" root', "contradiction or endless recursion"],
    ['?root ::= "a"', "line 1, column 1: expected the name of a rule"],
  ])("rejects %j", (text, reason) => {
    const { code, message } = complaint(grammar(text));
    expect(code).toBe("GRAMMAR_INVALID");
    expect(message).toContain(reason);
  });

  test.each([`root ::= ${"(".repeat(100)}"a"${")".repeat(100)}`, "x".repeat(100_000), 'root ::= "a"{0,1000000}'])(
    "rejects %j as too much",
    (text) => {
      expect(complaint(grammar(text)).code).toBe("GRAMMAR_LIMIT");
    },
  );

  test.each([
    'root ::= "a" *',
    'root ::= "a" {1,3} "b"',
    'root ::= ("a"\n  + | [b-d] ?)',
    'root ::= 2nd -x\n2nd ::= "a" +\n-x ::= "b"',
    "root ::= item\n# a line between\nitem ::= [0-9]\t+",
  ])("reads %j as llama.cpp does", (text) => {
    expect(complaint(grammar(text)).message).toBe("");
  });

  test("reads lines, comments, groups and escapes as GBNF has them", () => {
    const source =
      'root ::= (\n  greeting # who\n  | "\\u00e9\\x41\\U0001F600\\n"\n)\n  | .\n\ngreeting ::= "hi"? [a-c\\]\\-^]{2}\r\n';
    expect(complaint(grammar(source)).message).toBe("");
  });

  test("rejects forms that are none", () => {
    for (const forms of [[], [{ prefix: 1, schema: {}, suffix: "" }], "x"]) {
      expect(complaint({ kind: "forms", forms: forms as never }).code).toBe("GRAMMAR_INVALID");
    }
  });
});
