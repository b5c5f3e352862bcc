// Replies as models of the newer families write them, with their deviations: texts written for this, whole and cut into
// single characters.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FULL_RUN } from "../../../test/support/full-run.js";
import { type CallConvention, CONVENTIONS, conventionOf } from "./conventions.js";
import { answerMarks, callConvention, reasoningMarks } from "./convention.js";
import type { ChatOutputParserOptions } from "./output-parser.js";
import { calling, chunksOf, parsed, type ParsedAnswer } from "../testing/parsed-reply.js";

const NAMES = Object.keys(CONVENTIONS) as CallConvention[];

function read(
  convention: CallConvention,
  answer: string,
  options: Partial<ChatOutputParserOptions> = {},
): Omit<ParsedAnswer, "order"> {
  const own = {
    convention,
    reasoning: reasoningMarks("</think>", () => false, convention),
    answerMarks: conventionOf(convention).answerMarks ?? [],
    ...options,
  };
  const { order, ...whole } = parsed([answer], own);
  expect(parsed([...answer], own)).toStrictEqual({ ...whole, order });
  return whole;
}

const said = (text: string, calls: ParsedAnswer["calls"] = [], reasoning = ""): Omit<ParsedAnswer, "order"> => ({
  text,
  reasoning,
  calls,
});
const oslo = calling("get_weather", '{"city": "Oslo"}');

describe("harmony", () => {
  test.each<[string, string, Omit<ParsedAnswer, "order">]>([
    [
      "thoughts, a preamble, an answer",
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Second.\n<|return|>",
      said("First.\n\nSecond.\n", [], "Hm."),
    ],
    [
      "several thoughts, and none",
      "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|> <|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|>",
      said("", [], "One.\n\nTwo."),
    ],
    [
      "a recipient in front of the channel",
      ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Oslo"}<|call|>',
      said("", [oslo]),
    ],
    [
      "a call on the channel of thoughts, without a type, and a second one",
      '<|channel|>analysis to=functions.get_weather code<|message|>{"city": "Oslo"}<|call|><|start|>assistant to=search<|channel|>commentary<|message|>{}',
      said("", [oslo, calling("search", "{}", "id1")]),
    ],
    ["no header at all", "Just text.", said("Just text.")],
    ["words that begin like a header", "to be", said("to be")],
    [
      "an end that is missing",
      "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>So.",
      said("So.", [], "Hm."),
    ],
    [
      "arguments that are no JSON",
      "<|channel|>commentary to=functions.search<|message|>print(1)<|call|>",
      said("<|channel|>commentary to=functions.search<|message|>print(1)"),
    ],
    [
      "a call that is cut off",
      '<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query": "x',
      said('<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query": "x'),
    ],
    ["a recipient that is no tool", "<|channel|>commentary to=browser.open<|message|>{}", said("{}")],
    ["thoughts that are cut off", "<|channel|>analysis<|message|>Hm, \n", said("", [], "Hm, \n")],
    ["a header that is cut off", "<|channel|>comm", said("<|channel|>comm")],
  ])("reads %s", (_, answer, expected) => {
    expect(read("harmony", answer)).toStrictEqual(expected);
  });

  test("is text without tools, but for thoughts", () => {
    expect(
      read("harmony", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|> b ", {
        tools: [],
      }),
    ).toStrictEqual(said("b ", [], "a"));
  });

  test("takes no text for a header that never ends", () => {
    const answer = `<|channel|>final ${"to=x ".repeat(1000)}`;
    expect(read("harmony", answer).text.length).toBeGreaterThan(4000);
  });
});

describe("Python's calls", () => {
  const call = (inside: string): string => `<|tool_call_start|>${inside}<|tool_call_end|>`;

  test.each<[string, string, unknown]>([
    [
      "both quotes and escapes",
      `query='a "b" \\'c\\' \\n', city="it's \\"x\\" \\u00e9 ü"`,
      { query: "a \"b\" 'c' \n", city: 'it\'s "x" é ü' },
    ],
    ["an apostrophe that is not escaped", "query='it's Bob's', n=1", { query: "it's Bob's", n: 1 }],
    [
      "words and numbers",
      "a=True, b=False, c=None, d=-1.50, e=1e3, f=.5, g=12",
      { a: true, b: false, c: null, d: -1.5, e: 1000, f: 0.5, g: 12 },
    ],
    [
      "lists, tuples and dictionaries",
      "a=[1, 'x', [True]], b=('y', ), c={'k': {\"l\": None}, 2: 'z'}",
      { a: [1, "x", [true]], b: ["y"], c: { k: { l: null }, 2: "z" } },
    ],
    ["line breaks", "\n  query = 'x',\n  n = 2,\n", { query: "x", n: 2 }],
    ["a backslash that escapes nothing", String.raw`query="\d+ \\ C:\x"`, { query: "\\d+ \\ C:\\x" }],
    ["places in order", "'Oslo', 3", { city: "Oslo", days: 3 }],
    ["nothing", "", {}],
  ])("have %s", (_, inside, given) => {
    const { calls, text } = read("python-calls", call(`[get_weather(${inside})]`));
    expect(text).toBe("");
    expect(calls.map(({ arguments: json }) => JSON.parse(json) as unknown)).toStrictEqual([given]);
  });

  test("keep the digits of numbers", () => {
    expect(read("python-calls", call("[search(n=12345678901234567890, z=1.50)]")).calls[0].arguments).toBe(
      '{"n":12345678901234567890,"z":1.50}',
    );
  });

  test("are a list, lines, or JSON, with text around", () => {
    const two = [calling("search", { query: "a" }), calling("get_weather", {}, "id1")];
    expect(read("python-calls", `So: ${call("[search(query='a'), get_weather()]")} Done.`)).toStrictEqual(
      said("So:Done.", two),
    );
    expect(read("python-lines", "<function_calls>\nsearch(query='a')\nget_weather()\n</function_calls>")).toStrictEqual(
      said("", two),
    );
    expect(read("python-calls", call('[{"name": "search", "arguments": {"query":"a"}}]')).calls).toStrictEqual([
      two[0],
    ]);
  });

  test.each([
    "[search(query=)]",
    "[search(query='x]",
    "[search query]",
    "[search(f(1))]",
    "[search(x=1 y=2)]",
    "search",
    "[search(query={1: })]",
    `[search(x=${"[".repeat(200)}${"]".repeat(200)})]`,
  ])("are text if they are not valid: %s", (inside) => {
    expect(read("python-calls", call(inside))).toStrictEqual(said(call(inside)));
  });
});

describe("Gemma 4's maps", () => {
  const call = (inside: string): string => `<|tool_call>call:search{${inside}}<tool_call|>`;
  const quoted = (text: string): string => `<|"|>${text}<|"|>`;

  test("have text between marks, whatever it is, and everything else plain", () => {
    const inside = `query:${quoted('a "b" {c},:[ \n\\n <|x|>')},n:-1.50,ok:true,no:null,l:[1,${quoted("z")},{k:${quoted("")}}],m:{a_b:{c:2}},bare:some words`;
    expect(JSON.parse(read("quoted-map", call(inside)).calls[0].arguments)).toStrictEqual({
      query: 'a "b" {c},:[ \n\\n <|x|>',
      n: -1.5,
      ok: true,
      no: null,
      l: [1, "z", { k: "" }],
      m: { a_b: { c: 2 } },
      bare: "some words",
    });
  });

  test("come after thoughts with their label, and one after another", () => {
    const reasoning = reasoningMarks("<channel|>", () => false);
    expect(
      read("quoted-map", `<|channel>thought\nHm.\n<channel|>I look.${call("")}${call("n:1")}`, { reasoning }),
    ).toStrictEqual(said("I look.", [calling("search", {}), calling("search", { n: 1 }, "id1")], "Hm."));
    expect(read("quoted-map", "<|channel>thought\n<channel|>So.", { reasoning })).toStrictEqual(said("So."));
  });

  test.each(["query", `query:${quoted("x")},`.replace(",", ",,"), `query:<|"|>x`, "query:[1", "query:}"])(
    "are text if they are not valid: %s",
    (inside) => {
      expect(read("quoted-map", call(inside)).calls).toStrictEqual([]);
      expect(read("quoted-map", call(inside)).text).toBe(call(inside));
    },
  );
});

describe("marks that models forget or move", () => {
  test.each<[CallConvention, string, Omit<ParsedAnswer, "order">]>([
    // Kimi calls from inside its thoughts.
    [
      "numbered-json",
      "<think>Hm. <|tool_calls_section_begin|><|tool_call_begin|>functions.search:4<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
      said("", [calling("search", "{}", "functions.search:4")], "Hm."),
    ],
    [
      "numbered-json",
      "<|tool_call_begin|>search<|tool_call_argument_begin|>{}<|tool_call_end|> ok",
      said("ok", [calling("search", "{}", "search")]),
    ],
    ["separated-json", "<｜tool▁call▁begin｜>search<｜tool▁sep｜>{}", said("", [calling("search", "{}")])],
    [
      "separated-json",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>search{}",
      said("<｜tool▁call▁begin｜>search{}", [calling("search", "{}")]),
    ],
    [
      "separated-fence",
      "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>",
      said("<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"),
    ],
    ["named-parameters", "<minimax:tool_call></minimax:tool_call>", said("<minimax:tool_call></minimax:tool_call>")],
    [
      "named-parameters",
      '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">90210</parameter>\n<parameter name="filter">{"a": [1]}</parameter>\n</invoke>',
      said("", [calling("get_weather", '{"city":"90210","filter":{"a": [1]}}')]),
    ],
    [
      "typed-parameters",
      '<｜DSML｜function_calls>\n<｜DSML｜invoke name="search">\n<｜DSML｜parameter name="query" string="true">5</｜DSML｜parameter>\n<｜DSML｜parameter name="other" string="true">6</｜DSML｜parameter>\n<｜DSML｜parameter name="third" string="false">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
      said("", [calling("search", '{"query":"5","other":"6","third":7}')]),
    ],
    ["open-list", '<|tool_call|>{"name": "search", "arguments": {}}', said("", [calling("search", "{}")])],
    ["capital-list", '<TOOLCALL>[{"name": "search", "arguments": "{}"}]', said("", [calling("search", "{}")])],
    [
      "action-list",
      '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "search", "parameters": {}}]<|END_ACTION|>',
      said("", [calling("search", "{}")]),
    ],
    ["action-list", "<|START_RESPONSE|> Yes. <|END_RESPONSE|>", said("Yes.")],
    ["action-text", "<|START_TEXT|>Yes.<|END_TEXT|>", said("Yes.")],
    ["recipients", "all\n>>> print(1)\nok>>>search\n{}", said(">>> print(1)\nok", [calling("search", "{}")])],
    ["recipients", "unknown\n{}", said("unknown\n{}")],
    [
      "tagged-lines",
      'So:\n<tool_calls>\n{"name": "search"}\n{"name": "search", "arguments": {"query": "x"}}\n</tool_calls>\nDone',
      said("So:Done", [calling("search", "{}"), calling("search", '{"query": "x"}', "id1")]),
    ],
    ["tagged-lines", '<tool_calls>{"name": "search"} {1}', said("{1}", [calling("search", "{}")])],
    [
      "bare-json",
      '[{"name": "search", "arguments": {}}, {"name": "get_weather"}] ok',
      said("ok", [calling("search", "{}"), calling("get_weather", "{}", "id1")]),
    ],
    ["bare-json", '[{"name": "other"}]', said('[{"name": "other"}]')],
    ["bare-json", "[1](x)", said("[1](x)")],
    [
      "python-span",
      'Hm.<|python_start|><|python_end|>{"name": "search", "parameters": {}}',
      said("Hm.<|python_start|>", [calling("search", "{}")]),
    ],
    [
      "marked-parts",
      "<|think|>a<|end|><|begin|>assistant<|think|>b<|end|><|begin|>assistant<|content|>c",
      said("c", [], "a\n\nb"),
    ],
    ["marked-parts", "plain", said("plain")],
    ["function-json", "Use <function=NAME>.", said("Use <function=NAME>.")],
    [
      "seed-parameters",
      "<function=search>\n<parameter=query>x</parameter>\n</function>",
      said("", [calling("search", { query: "x" })]),
    ],
  ])("%s: %s", (convention, answer, expected) => {
    expect(read(convention, answer)).toStrictEqual(expected);
  });

  test("an id that a model repeats is replaced", () => {
    const call = "<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
    const answer = `<|tool_calls_section_begin|>${call}${call}<|tool_calls_section_end|>`;
    expect(read("numbered-json", answer).calls.map(({ id }) => id)).toStrictEqual(["functions.search:0", "id0"]);
  });

  test("Apertus calls from inside its thoughts", () => {
    const reasoning = reasoningMarks("<|inner_suffix|>", () => false);
    const answer = '<|inner_prefix|>Hm.<|tools_prefix|>[{"search": {"query": "x"}}, {"get_weather": {}}]';
    expect(read("keyed-list", answer, { reasoning })).toStrictEqual(
      said("", [calling("search", '{"query": "x"}'), calling("get_weather", "{}", "id1")], "Hm."),
    );
  });

  test("Apriel's thoughts, which words begin and end, opened by the model or by the prompt", () => {
    const template = "After your thoughts, [BEGIN FINAL RESPONSE] … [END FINAL RESPONSE].";
    const options = {
      reasoning: reasoningMarks(template, () => false),
      answerMarks: answerMarks(template, "tagged-list"),
      tools: [],
    };
    const thoughts = "It is easy.\n[BEGIN FINAL RESPONSE]\nYes.\n[END FINAL RESPONSE]";
    expect(read("tagged-list", `Here are my reasoning steps:\n${thoughts}`, options)).toStrictEqual(
      said("Yes.\n", [], "It is easy."),
    );
    expect(read("tagged-list", thoughts, { ...options, reasoningOpen: true })).toStrictEqual(
      said("Yes.\n", [], "It is easy."),
    );
  });

  test.each([
    ["ERNIE 4.5", "think_mode=True … </think> … '<response>\n' + answer + '\n</response>'", "response"],
    ["Hunyuan A13B", "<think>\n\n</think> … <|extra_0|>", "answer"],
  ])("%s has marks around its answer", (_, template, tag) => {
    const options = { answerMarks: answerMarks(template, "tagged-json"), reasoningOpen: true, tools: [] };
    expect(read("tagged-json", `Hm.\n</think>\n\n<${tag}>\nYes.\n</${tag}>\n`, options)).toStrictEqual(
      said("Yes.\n", [], "Hm."),
    );
  });

  test("an answer in marks of its own, behind thoughts", () => {
    const template = "Write thoughts between <think></think> and the answer between <response></response>.";
    const marks = answerMarks(template, "open-list");
    expect(marks).toStrictEqual(["<response>", "</response>"]);
    expect(answerMarks("<response>{{ result }}</response>", "named-parameters")).toStrictEqual([]);
    expect(
      read("open-list", "<think>Hm.</think>\n<response>\nYes.\n</response>", { answerMarks: marks, tools: [] }),
    ).toStrictEqual(said("Yes.\n", [], "Hm."));
  });
});

describe("any reply of any convention", () => {
  const marks = [...new Set(NAMES.flatMap((name) => conventionOf(name).marks))];
  const spelled = NAMES.flatMap((name) => {
    const { prefix, suffix } = conventionOf(name).spell("search", 0);
    return [prefix, suffix, `${prefix}{"query": "x"}${suffix}`];
  });
  const fragment = fc.oneof(
    fc.constantFrom(...marks, ...spelled),
    fc.constantFrom(
      "search",
      "functions.search:1",
      "(query='x')",
      "query:",
      "=",
      ",",
      "{",
      "}",
      "[",
      "]",
      "(",
      ")",
      "\n",
      " ",
    ),
    fc.string({ unit: "binary", maxLength: 6 }),
  );

  test("is parsed without an error, the same however it is cut, and its calls are JSON", () => {
    fc.assert(
      fc.property(
        fc.array(fragment, { maxLength: 25 }),
        fc.constantFrom(...NAMES),
        fc.boolean(),
        fc.infiniteStream(fc.integer({ min: 1, max: 12 })),
        (parts, convention, hasTools, sizes) => {
          const answer = parts.join("");
          const chunks = chunksOf(answer, sizes);
          const options = {
            convention,
            answerMarks: conventionOf(convention).answerMarks ?? [],
            ...(hasTools ? {} : { tools: [] }),
          };
          const whole = parsed([answer], options);
          expect(parsed(chunks, options)).toStrictEqual(whole);
          for (const { arguments: json } of whole.calls) expect(() => JSON.parse(json)).not.toThrow();
          expect(hasTools || whole.calls.length === 0).toBe(true);
        },
      ),
      { numRuns: 2000 },
    );
  });

  test("takes linear time, however long its calls are", () => {
    const size = FULL_RUN ? 100_000 : 50_000;
    for (const convention of NAMES) {
      const { prefix, suffix } = conventionOf(convention).spell("search", 0);
      const long = [
        prefix.repeat(size / prefix.length),
        `${prefix}${"x".repeat(size)}`,
        `${prefix}{"a":"${"y".repeat(size)}"}${suffix}`,
        `${prefix}a='${"z', b='".repeat(size / 7)}`,
        `${prefix}${'{a:<|"|>'.repeat(size / 8)}`,
        ...(suffix === "" ? [] : [suffix.repeat(size / suffix.length)]),
      ];
      for (const answer of long) {
        const { text, calls } = parsed(answer.match(/.{1,7}/gsu) ?? [], { convention });
        expect(text.length + calls.length).toBeGreaterThanOrEqual(0);
      }
    }
  });
});

test("conventions are told from what templates write, and from the vocabulary if they write nothing", () => {
  expect(callConvention("List of tools: {{ tools }}", (token) => token === "<|tool_call_start|>")).toBe("python-calls");
  expect(callConvention("List of tools: {{ tools }}", (token) => token.startsWith("[TOOL_C"))).toBe("bracketed");
  expect(callConvention("List of tools: {{ tools }}", () => false)).toBe("bare-json");
  expect(callConvention("<|start|>{{ role }}<|message|>{{ text }}<|end|>{% endfor %}<|start|>assistant")).toBe(
    "harmony",
  );
  // Another family starts its turns in the same way, and ends them in another.
  expect(callConvention("<|start|>assistant to={{ name }}<|message|>{{ text }}<|eot|>")).toBe("bare-json");
  expect(callConvention("Write <tool_call>{\"name\": …}</tool_call>. {{- '<tool_call>\\n{' }}")).toBe("tagged-json");
  const keys = (between: string): string => `<tool_call>{{- '<arg_key>' ~ k ~ '</arg_key>${between}<arg_value>' ~ v }}`;
  expect(["\\n", "\n", "", "' }}  {{- '"].map((between) => callConvention(keys(between)))).toStrictEqual([
    "tagged-keys",
    "tagged-keys",
    "joined-keys",
    "joined-keys",
  ]);
  expect(callConvention("<|START_ACTION|> … <|START_TEXT|>")).toBe("action-text");
  expect(callConvention("'<tool_call>' … '<parameter=' …", () => true)).toBe("tagged-parameters");
  expect(reasoningMarks("</think>", () => false, "harmony")).toBeUndefined();
  expect(reasoningMarks("x", (token) => token.includes("THINK]"))).toMatchObject({ open: "[THINK]" });
});
