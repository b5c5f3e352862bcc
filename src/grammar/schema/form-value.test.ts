// Forms whose value is written in a notation other than JSON: which texts they accept.

import { describe, expect, test } from "vitest";
import { compileGrammar } from "../compile-grammar.js";
import type { GrammarSpec, ValueNotation } from "../grammar-spec.js";
import { ByteMatcher } from "../testing/byte-matcher.js";

const TAGS: ValueNotation = {
  kind: "fields",
  open: "<parameter=",
  text: ">\n",
  json: ">\n",
  close: "\n</parameter>\n",
};
const TYPED: ValueNotation = {
  kind: "fields",
  open: '<p name="',
  text: '" string="true">',
  json: '" string="false">',
  close: "</p>",
};
const PYTHON: ValueNotation = { kind: "python" };
const MAP: ValueNotation = { kind: "map", quote: '<|"|>' };

const SCHEMA = {
  type: "object",
  properties: {
    city: { type: "string" },
    days: { type: "integer", minimum: 1, maximum: 14 },
    unit: { enum: ["C", "F", 3, null] },
    zip: { type: ["string", "null"], pattern: "^[0-9]{5}$" },
    tags: { type: "array", items: { enum: ["a", "b"] }, uniqueItems: true },
    more: { type: "object", properties: { deep: { type: "boolean" }, note: { type: "string", maxLength: 3 } } },
  },
  required: ["city"],
} as const;

const form = (notation: ValueNotation, schema: unknown = SCHEMA): GrammarSpec => ({
  kind: "forms",
  forms: [{ prefix: "(", schema, suffix: ")", notation }],
});

async function outcomes(spec: GrammarSpec, texts: readonly string[]): Promise<readonly string[]> {
  const accepts = await new ByteMatcher().compile(spec);
  const all = await Promise.all(texts.map(async (text) => ((await accepts(`(${text})`)) ? text : undefined)));
  return all.filter((text) => text !== undefined);
}

describe("fields in tags", () => {
  const field = (key: string, value: string): string => `<parameter=${key}>\n${value}\n</parameter>\n`;

  test("hold strings as they are, and other values as JSON", async () => {
    const sound = [
      field("city", ""),
      field("city", 'São "Paulo" \\ <b>\n\n\tx'),
      field("city", "Bern") + field("days", "14"),
      field("city", "5") + field("unit", "C") + field("zip", "01234"),
      field("city", "x") + field("unit", "null") + field("zip", "null") + field("tags", '["b", "a"]'),
      field("city", "</param") + field("more", '{"deep": true, "note": "\\"ab"}'),
    ];
    expect(await outcomes(form(TAGS), sound)).toStrictEqual(sound);
  });

  test("are required, in the order of the schema, and of its types", async () => {
    const wrong = [
      "",
      field("days", "3"),
      field("days", "3") + field("city", "x"),
      field("city", "x") + field("days", "15"),
      field("city", "x") + field("days", '"3"'),
      field("city", "x") + field("unit", "K"),
      field("city", "x") + field("zip", "1234"),
      field("city", "x") + field("tags", '["a","a"]'),
      field("city", "x") + field("other", "1"),
      field("city", "a</parameter>b"),
    ];
    expect(await outcomes(form(TAGS), wrong)).toStrictEqual([]);
  });

  test("say whether a value is a string", async () => {
    const typed = (key: string, isText: boolean, value: string): string =>
      `<p name="${key}" string="${isText}">${value}</p>`;
    const schema = { type: "object", properties: { a: { type: "string" }, b: {} }, required: ["a"] };
    const [sound, wrong] = [
      [
        typed("a", true, "5"),
        typed("a", true, "x") + typed("b", true, "y z"),
        typed("a", true, "x") + typed("b", false, '{"k":["v"]}'),
      ],
      [typed("a", false, "5"), typed("a", true, "x") + typed("b", false, '"text"'), typed("a", true, "</p>")],
    ];
    expect(await outcomes(form(TYPED, schema), [...sound, ...wrong])).toStrictEqual(sound);
  });

  test("end at a control token, whatever the text is", () => {
    const notation = { ...TAGS, close: [7, "\n"] } as ValueNotation;
    const grammar = compileGrammar(form(notation, { type: "object", properties: { a: { type: "string" } } }));
    const text = Buffer.concat([
      Buffer.from("(<parameter=a>\n</parameter> "),
      Uint8Array.of(0xff, 0, 0, 7),
      Buffer.from("\n)"),
    ]);
    expect(grammar.automaton.walk(grammar.automaton.start, text)?.accepting).toBe(true);
  });

  test("satisfy lengths, references, conditions and counts", async () => {
    const schema = {
      $defs: { name: { type: "string", minLength: 2, maxLength: 4, pattern: "^[a-zé ]*$" } },
      type: "object",
      properties: { kind: { enum: ["x", "y"] }, name: { $ref: "#/$defs/name" }, size: { type: "number" } },
      required: ["kind"],
      minProperties: 2,
      allOf: [{ anyOf: [{ properties: { kind: { const: "x" } } }, { required: ["size"] }] }],
    };
    const [sound, wrong] = [
      [field("kind", "x") + field("name", "aé b"), field("kind", "y") + field("name", "ab") + field("size", "-1.5")],
      [
        field("kind", "x"),
        field("kind", "x") + field("name", "a"),
        field("kind", "x") + field("name", "abcde"),
        field("kind", "x") + field("name", "aB"),
        field("kind", "y") + field("name", "ab"),
      ],
    ];
    expect(await outcomes(form(TAGS, schema), [...sound, ...wrong])).toStrictEqual(sound);
  });

  test("are none if the schema has none", async () => {
    expect(await outcomes(form(TAGS, { type: "object", properties: {} }), ["", field("a", "1")])).toStrictEqual([""]);
  });
});

test("Python's arguments have Python's words at every depth", async () => {
  const [sound, wrong] = [
    [
      'city="Be\\"rn"',
      'city="", days=3, unit=None',
      'city="x", unit="C", zip="01234", tags=["a"], more={"deep": True, "note": "ab"}',
    ],
    ["", "days=3", "city=Bern", 'city="x",days=3', 'city="x", unit=null', 'city="x", more={"deep": true}'],
  ];
  expect(await outcomes(form(PYTHON), [...sound, ...wrong])).toStrictEqual(sound);
});

test("maps have bare keys, and strings between quotes of their own", async () => {
  const quoted = (text: string): string => `<|"|>${text}<|"|>`;
  const [sound, wrong] = [
    [
      `{city:${quoted('a "b" {c}\n\\')}}`,
      `{city:${quoted("")},days:3,unit:null}`,
      `{city:${quoted("x")},unit:${quoted("C")},zip:${quoted("01234")},tags:[${quoted("b")}],more:{deep:true,note:${quoted('a"b')}}}`,
    ],
    [
      "{}",
      '{"city":"x"}',
      `{city:${quoted("x")}, days:3}`,
      `{city:${quoted("x")},more:{note:${quoted("abcd")}}}`,
      `{city:${quoted("x")},unit:${quoted("K")}}`,
      `{city:${quoted("x")},zip:${quoted("1")}}`,
      `{city:x}`,
    ],
  ];
  expect(await outcomes(form(MAP), [...sound, ...wrong])).toStrictEqual(sound);
  const open = await outcomes(form(MAP, { type: "object" }), ["{}", `{any_1:[1,{k:${quoted("v")}}]}`, '{"a":1}']);
  expect(open).toStrictEqual(["{}", `{any_1:[1,{k:${quoted("v")}}]}`]);
});

test("rejects a notation that is not known", () => {
  const spec = form({ kind: "other" } as unknown as ValueNotation);
  expect(() => compileGrammar(spec)).toThrow("expected a notation that is known");
});
