// Arguments that models write as bare text, and the JSON that the tool's schema makes of them.

import { describe, expect, test } from "vitest";
import type { ChatTool } from "../message.js";
import { typedArguments } from "./typed-arguments.js";

function toolOf(schema: unknown): ChatTool {
  return { name: "tool", parameters: { type: "object", properties: { key: schema } } };
}

const valueOf = (text: string, schema: unknown): string | undefined =>
  /^\{"key":(?<value>[\s\S]*)\}$/.exec(typedArguments([{ key: "key", value: text }], toolOf(schema)) ?? "")?.groups?.[
    "value"
  ];

describe("arguments in words", () => {
  test.each<[what: string, schema: unknown, text: string, value: string]>([
    ["a string of digits", { type: "string" }, "90210", '"90210"'],
    ["a string of digits, or null", { type: ["string", "null"] }, "90210", '"90210"'],
    ["the null of those", { type: ["string", "null"] }, "null", "null"],
    ["a string of digits, or null, by anyOf", { anyOf: [{ type: "string" }, { type: "null" }] }, "90210", '"90210"'],
    [
      "a string of digits, or null, by oneOf inside anyOf",
      { anyOf: [{ oneOf: [{ type: "string" }] }, { type: "null" }] },
      "90210",
      '"90210"',
    ],
    ["a string of digits that may be null", { type: "string", nullable: true }, "null", "null"],
    ["a number where that or a string may stand", { type: ["string", "integer"] }, "90210", "90210"],
    ["a fraction where a whole number or a string may stand", { type: ["string", "integer"] }, "1.5", '"1.5"'],
    [
      "an object where that or a string may stand",
      { anyOf: [{ type: "string" }, { type: "object" }] },
      ' {"a": 1}\n',
      '{"a": 1}',
    ],
    ["quotation marks in a string", { type: "string" }, '"a"', String.raw`"\"a\""`],
    ["white space in a string", { type: "string" }, " a\n", String.raw`" a\n"`],
    ["one of several strings", { enum: ["1", "2"] }, "1", '"1"'],
    ["one of several strings and numbers", { enum: ["a", 1] }, "1", "1"],
    ["the one string", { const: "1" }, "1", '"1"'],
    ["digits that a double does not hold", { type: "integer" }, "12345678901234567890", "12345678901234567890"],
    [
      "digits that a double does not hold, in a list",
      {},
      " [12345678901234567890, 1.0]\n",
      "[12345678901234567890, 1.0]",
    ],
    ["a whole number with a point", { type: ["string", "integer"] }, "2.0", "2.0"],
    ["text where none may stand", { type: "integer" }, "many", '"many"'],
    ["text where anything may", {}, "many", '"many"'],
    ["text where anything may by anyOf", { anyOf: [{ type: "string" }, {}] }, "1", "1"],
    ["a truth as Python has it", { type: "boolean" }, "True", "true"],
    ["nothing as Python has it", { type: ["integer", "null"] }, "None", "null"],
    ["a list as Python prints it", { type: "array" }, "['a', \"b's\", True, None]", '["a","b\'s",true,null]'],
    ["a dictionary as Python prints it", { type: ["object", "null"] }, "{'a': {'b': 1.50}}", '{"a":{"b":1.50}}'],
    ["a list of Python's that may be text", { type: ["string", "array"] }, "['a']", "\"['a']\""],
    ["a list of Python's where a number may stand", { type: "number" }, "['a']", "\"['a']\""],
    ["brackets that are neither", { type: "array" }, "[a]", '"[a]"'],
    ["a word of Python's that may be text", { type: ["string", "boolean"] }, "True", '"True"'],
    ["a word of Python's where anything may stand", {}, "True", '"True"'],
    ["a schema that is none", "string", "1", "1"],
    ["types that are none", { type: [1, null], anyOf: "x" }, "1", "1"],
  ])("%s", (_what, schema, text, value) => {
    expect(valueOf(text, schema)).toBe(value);
  });

  test("keys that the schema does not have, that name prototypes, and that come twice", () => {
    const given = [
      { key: "__proto__", value: "1" },
      { key: "toString", value: "a" },
      { key: "key", value: "1" },
      { key: "key", value: "2" },
    ];
    expect(typedArguments(given, toolOf({ type: "string" }))).toBe('{"__proto__":1,"toString":"a","key":"2"}');
    expect(typedArguments([{ key: "a", value: "[1]" }], undefined)).toBe('{"a":[1]}');
    expect(typedArguments([], undefined)).toBe("{}");
  });

  test("a string behind a reference, or among schemas that all apply", () => {
    const tool: ChatTool = {
      name: "tool",
      parameters: {
        type: "object",
        $defs: { zip: { type: "string" }, loop: { $ref: "#/$defs/loop" }, "a/b": { $ref: "#/$defs/zip" } },
        properties: {
          plain: { $ref: "#/$defs/zip" },
          far: { $ref: "#/$defs/a~1b" },
          every: { allOf: [{ minLength: 1 }, { $ref: "#/$defs/zip" }] },
          loop: { $ref: "#/$defs/loop" },
          none: { $ref: "#/$defs/missing" },
        },
      },
    };
    const given = ["plain", "far", "every", "loop", "none"].map((key) => ({ key, value: "1" }));
    expect(typedArguments(given, tool)).toBe('{"plain":"1","far":"1","every":"1","loop":1,"none":1}');
  });

  test("references that multiply cost little", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 60 }, (_, index) => {
        const next = { $ref: `#/$defs/d${index + 1}` };
        return [`d${index}`, { anyOf: [next, next] }];
      }),
    );
    const parameters = { type: "object", $defs, properties: { key: { $ref: "#/$defs/d0" } } };
    expect(typedArguments([{ key: "key", value: "1" }], { name: "tool", parameters })).toBe('{"key":1}');
  });

  test("rejects what is too deep or too long", () => {
    const deep = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    expect(valueOf(deep(100), {})).toBe(deep(100));
    expect(typedArguments([{ key: "key", value: deep(128) }], undefined)).toBeUndefined();
    expect(typedArguments([{ key: "key", value: deep(20_000) }], undefined)).toBeUndefined();
    expect(typedArguments([{ key: "key", value: "\u0001".repeat(300_000) }], undefined)).toBeUndefined();
  });
});
