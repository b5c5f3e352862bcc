// Answers as models of each convention write them, and what becomes of them, however they are cut.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FULL_RUN } from "../../../test/support/full-run.js";
import { type CallConvention, CONVENTIONS, conventionOf } from "./conventions.js";
import { ChatOutputParser, type ChatOutputParserOptions } from "./output-parser.js";
import {
  calling as call,
  chunksOf,
  joined as join,
  parsed as parse,
  type ParsedAnswer,
  TOOLS as tools,
} from "../testing/parsed-reply.js";
import { spelledCall } from "../testing/spelled-call.js";
import { toolChoiceForms } from "./tool-constraint.js";

const NAMES = Object.keys(CONVENTIONS) as CallConvention[];

interface Recorded {
  readonly title: string;
  readonly convention: CallConvention;
  readonly answer: string;
  readonly text?: string;
  readonly reasoning?: string;
  readonly calls?: ParsedAnswer["calls"];
  readonly options?: Partial<ChatOutputParserOptions>;
}

const RECORDED: readonly Recorded[] = [
  {
    title: "plain text",
    convention: "tagged-json",
    answer: "The sky is blue.\n\nReally.\n",
    text: "The sky is blue.\n\nReally.\n",
  },
  {
    title: "one call",
    convention: "tagged-json",
    answer: '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    calls: [call("get_weather", '{"city": "Paris"}')],
  },
  {
    title: "thoughts, text and parallel calls",
    convention: "tagged-json",
    answer:
      '<think>\nTwo cities, so two calls.\n</think>\n\nLet me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln"}}\n</tool_call>\n<tool_call>\n{"arguments": {"query": "a \\"b\\" \\\\ c", "n": [1, {"x": null}]}, "name": "search"}\n</tool_call>\nDone.',
    text: "Let me look.Done.",
    reasoning: "Two cities, so two calls.",
    calls: [
      call("get_weather", '{"city": "Köln"}'),
      call("search", '{"query": "a \\"b\\" \\\\ c", "n": [1, {"x": null}]}', "id1"),
    ],
  },
  {
    title: "digits that a double does not hold, and the marks inside a string",
    convention: "tagged-json",
    answer:
      '<tool_call>{"name":"search","arguments":{"query":"</tool_call><tool_call>}{","id":12345678901234567890}}</tool_call>',
    calls: [call("search", '{"query":"</tool_call><tool_call>}{","id":12345678901234567890}')],
  },
  {
    title: "a call without arguments and one with them in a string",
    convention: "tagged-json",
    answer:
      '<tool_call>{"name":"search"}</tool_call><tool_call>{"name":"search","arguments":"{\\"query\\": \\"x\\"}"}</tool_call>',
    calls: [call("search", "{}"), call("search", '{"query": "x"}', "id1")],
  },
  {
    title: "a closing tag that is missing",
    convention: "tagged-json",
    answer: '<tool_call>\n{"name": "search", "arguments": {}}\nSo.',
    text: "So.",
    calls: [call("search", "{}")],
  },
  {
    title: "broken JSON, then a sound call",
    convention: "tagged-json",
    answer:
      'A <tool_call>\n{"name": "search", "arguments": {"query": "x"}\n</tool_call> B <tool_call>{"name":"search","arguments":{}}</tool_call>',
    text: 'A <tool_call>\n{"name": "search", "arguments": {"query": "x"}\n</tool_call> B',
    calls: [call("search", "{}")],
  },
  {
    title: "brackets that do not match, a line break in a string, arguments that are no object, no name",
    convention: "tagged-json",
    answer:
      '<tool_call>{"name":"a","arguments":{"x":[1}}</tool_call>|<tool_call>{"name":"a\n"}</tool_call>|<tool_call>{"name":"a","arguments":[1]}</tool_call>|<tool_call>{"arguments":{}}</tool_call>',
    text: '<tool_call>{"name":"a","arguments":{"x":[1}}</tool_call>|<tool_call>{"name":"a\n"}</tool_call>|<tool_call>{"name":"a","arguments":[1]}</tool_call>|<tool_call>{"arguments":{}}</tool_call>',
  },
  {
    title: "a call that is cut off",
    convention: "tagged-json",
    answer: 'Hm. <tool_call>\n{"name": "search", "arguments": {"que',
    text: 'Hm. <tool_call>\n{"name": "search", "arguments": {"que',
  },
  { title: "a mark that is cut off", convention: "tagged-json", answer: "1 <tool_ca", text: "1 <tool_ca" },
  { title: "thoughts that are cut off", convention: "tagged-json", answer: "<think>\nhm, \n", reasoning: "hm, \n" },
  {
    title: "marks in the middle of an answer",
    convention: "tagged-json",
    answer: "Use <think> and </think>.",
    text: "Use <think> and </think>.",
  },
  {
    title: "thoughts that the prompt has opened",
    convention: "tagged-json",
    answer: "\nso it is\n</think>\n\nYes.",
    text: "Yes.",
    reasoning: "so it is",
    options: { reasoningOpen: true },
  },
  {
    title: "no tools, so no calls",
    convention: "tagged-json",
    answer: '<tool_call>{"name":"search","arguments":{}}</tool_call> \n',
    text: '<tool_call>{"name":"search","arguments":{}}</tool_call> \n',
    options: { tools: [] },
  },
  {
    title: "keys and values, typed by the schema",
    convention: "tagged-keys",
    answer:
      '<think>ok</think>Sure.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>42</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>units</arg_key>\n<arg_value>C</arg_value>\n<arg_key>filter</arg_key>\n<arg_value>{"rain": [true]}</arg_value>\n<arg_key>note</arg_key>\n<arg_value>a <b>\n"c" ✓</arg_value>\n</tool_call>\n<tool_call>search\n</tool_call>',
    text: "Sure.",
    reasoning: "ok",
    calls: [
      call(
        "get_weather",
        String.raw`{"city":"42","days":3,"units":"C","filter":{"rain": [true]},"note":"a <b>\n\"c\" ✓"}`,
      ),
      call("search", "{}", "id1"),
    ],
  },
  {
    title: "keys that name prototypes",
    convention: "tagged-keys",
    answer: "<tool_call>search<arg_key>__proto__</arg_key><arg_value>1</arg_value></tool_call>",
    calls: [call("search", '{"__proto__":1}')],
  },
  {
    title: "keys without values, and prose about the tag",
    convention: "tagged-keys",
    answer: "<tool_call>search\n<arg_key>query</arg_key>\n</tool_call> and <tool_call> is a tag, they say",
    text: "<tool_call>search\n<arg_key>query</arg_key>\n</tool_call> and <tool_call> is a tag, they say",
  },
  {
    title: "a list of calls with ids",
    convention: "bracketed",
    answer:
      'I will look.\n[TOOL_CALLS] [{"name": "search", "arguments": {"query": "ü"}, "id": "abcDEF123"}, {"name": "get_weather", "arguments": {"city": "Rome", "filter": {"a": [1, 2]}}}]',
    text: "I will look.",
    calls: [
      call("search", '{"query": "ü"}', "abcDEF123"),
      call("get_weather", '{"city": "Rome", "filter": {"a": [1, 2]}}'),
    ],
  },
  {
    title: "calls by name",
    convention: "bracketed",
    answer: '[TOOL_CALLS]search[ARGS]{"query": "a"}[TOOL_CALLS]get_weather[CALL_ID]123456789[ARGS]{"city": "b"}',
    calls: [call("search", '{"query": "a"}'), call("get_weather", '{"city": "b"}', "123456789")],
  },
  {
    title: "a list that breaks at its second call",
    convention: "bracketed",
    answer: '[TOOL_CALLS][{"name":"search","arguments":{}}, {"name":"search","arguments":}]',
    text: ', {"name":"search","arguments":}]',
    calls: [call("search", "{}")],
  },
  { title: "a list of nothing", convention: "bracketed", answer: "[TOOL_CALLS] []!", text: "[TOOL_CALLS] []!" },
  {
    title: "a bare call",
    convention: "python-tag",
    answer: '{"name": "get_weather", "parameters": {"city": "Oslo", "days": 2}}',
    calls: [call("get_weather", '{"city": "Oslo", "days": 2}')],
  },
  {
    title: "calls behind the tag",
    convention: "python-tag",
    answer:
      '<|python_tag|>{"name": "search", "parameters": {"query": "a"}}; {"name": "search", "parameters": {"query": "b"}}',
    calls: [call("search", '{"query": "a"}'), call("search", '{"query": "b"}', "id1")],
  },
  {
    title: "code behind the tag",
    convention: "python-tag",
    answer: "Look: <|python_tag|>print({1: 2})",
    text: "Look: <|python_tag|>print({1: 2})",
  },
  {
    title: "JSON that calls nothing here",
    convention: "python-tag",
    answer: '{"name": "Ada", "parameters": {}} is JSON.',
    text: '{"name": "Ada", "parameters": {}} is JSON.',
  },
  {
    title: "a call in a fence",
    convention: "bare-json",
    answer: '```json\n{"name": "search", "arguments": {"query": "x"}}\n```\nThere.',
    text: "There.",
    calls: [call("search", '{"query": "x"}')],
  },
  {
    title: "a fence with something else",
    convention: "bare-json",
    answer: "```js\n{1}\n```\n",
    text: "```js\n{1}\n```\n",
  },
  {
    title: "the form of the APIs",
    convention: "bare-json",
    answer: '{"type":"function","id":"c1","function":{"name":"search","arguments":"{\\"query\\":1}"}}',
    calls: [call("search", '{"query":1}', "c1")],
  },
  { title: "white space in front", convention: "bare-json", answer: "  Hi", text: "Hi", options: { trimsStart: true } },
];

describe("the parser of answers", () => {
  for (const { title, convention, answer, text = "", reasoning = "", calls = [], options } of RECORDED) {
    test(`reads ${convention}: ${title}`, () => {
      const joined = parse([answer], { convention, ...options });
      expect({ ...joined, order: undefined }).toStrictEqual({ text, reasoning, calls, order: undefined });
      expect(parse([...answer], { convention, ...options })).toStrictEqual(joined);
    });
  }

  const fragments = fc.constantFrom(
    ...RECORDED.flatMap(({ answer }) => answer.match(/.{1,12}/gsu) ?? []),
    "<tool_call>",
    "</tool_call>",
    "<function=search>",
    "<parameter=query>",
    "</parameter>",
    "</function>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "<think>",
    "</think>",
    "```",
    '{"name":"search","arguments":',
    "{",
    "}",
    "\\",
    '"',
    " ",
    "\n",
  );
  const conventions = fc.constantFrom(...NAMES);

  test("gives the same however the answer is cut", () => {
    fc.assert(
      fc.property(
        fc.array(fragments, { maxLength: 30 }),
        conventions,
        fc.boolean(),
        fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
        (parts, convention, reasoningOpen, sizes) => {
          const answer = parts.join("");
          const chunks = chunksOf(answer, sizes);
          expect(parse(chunks, { convention, reasoningOpen })).toStrictEqual(
            parse([answer], { convention, reasoningOpen }),
          );
        },
      ),
      { numRuns: 2000 },
    );
  });

  test("loses nothing but white space where there are no sound calls and no thoughts", () => {
    const bare = (text: string): string => text.replaceAll(/\s/g, "");
    fc.assert(
      fc.property(fc.array(fragments, { maxLength: 30 }), conventions, (parts, convention) => {
        const answer = parts.join("");
        const joined = parse([answer], { convention, reasoning: undefined });
        if (joined.calls.length === 0) expect(joined.text).toBe(answer);
        else for (const { arguments: given } of joined.calls) expect(() => JSON.parse(given)).not.toThrow();
        expect(bare(joined.text).length).toBeLessThanOrEqual(bare(answer).length);
      }),
      { numRuns: 2000 },
    );
  });

  for (const convention of NAMES) {
    const { answer: around } = conventionOf(convention);

    test(`tells a call in ${convention} from an answer in a form, which may speak of calls`, () => {
      expect(toolChoiceForms(convention, tools, { choice: { kind: "auto" }, constrained: false })).toStrictEqual([]);
      const forms = toolChoiceForms(convention, tools, { choice: { kind: "auto" }, constrained: true });
      expect(forms).toStrictEqual(
        toolChoiceForms(convention, tools, { choice: { kind: "required" }, constrained: true }),
      );
      const options = { convention, forms, answer: around };
      const called = parse([...spelledCall(forms[0], { city: "Oslo" })], options);
      expect(called).toMatchObject({ text: "", calls: [{ name: "get_weather", ended: true }] });
      expect(JSON.parse(called.calls[0].arguments)).toStrictEqual({ city: "Oslo" });
      for (const answer of [
        '{"name": "get_weather"}',
        `{"text": "<tool_call>{\\"name\\": \\"search\\", \\"arguments\\": {}}</tool_call> [TOOL_CALLS]search[ARGS]{} <|python_tag|>{}"}`,
        '[{"name": "search", "arguments": {}}]',
        "3",
      ]) {
        const { text, calls } = parse([...`${around?.prefix ?? ""}${answer}${around?.suffix ?? ""}`], options);
        expect({ text, calls }).toStrictEqual({ text: answer, calls: [] });
      }
    });

    test(`reads what a forced call in ${convention} yields, its arguments as they come`, () => {
      const forms = toolChoiceForms(convention, tools, {
        choice: { kind: "required" },
        constrained: false,
        callsBefore: 3,
      });
      expect(forms.map(({ name }) => name)).toStrictEqual(["get_weather", "search"]);
      const form = forms[1];
      const given = { query: "é }] ) it's [x]", n: [{ a: null, b: [true, -1.5e3] }], empty: {} };
      const answer = spelledCall(form, given);
      const joined = parse([...answer], { convention, forms });
      expect(joined).toMatchObject({
        text: "",
        reasoning: "",
        calls: [{ id: form.id ?? "id0", name: "search", ended: true }],
        order: "call arguments call-end",
      });
      expect(JSON.parse(joined.calls[0].arguments)).toStrictEqual(given);
      expect(parse([answer], { convention, forms })).toStrictEqual(joined);
      // Cut off anywhere behind the name, the call is there with what has come of its arguments.
      for (let length = form.prefix.length; length < answer.length - form.suffix.length; length++) {
        const cut = parse([answer.slice(0, length)], { convention, forms });
        expect(cut).toMatchObject({ text: "", calls: [{ name: "search", ended: false }] });
        expect(joined.calls[0].arguments).toContain(cut.calls[0].arguments.slice(0, -1));
      }
      // Free decoding may write the same.
      const free = parse([answer], { convention }).calls;
      expect(free).toMatchObject([{ name: "search", ended: true }]);
      expect(JSON.parse(free[0].arguments)).toStrictEqual(given);
    });
  }

  test("takes linear time for long answers in small chunks", () => {
    // Quadratic work over these would take minutes, and the test's time limit ends it.
    const size = FULL_RUN ? 600_000 : 200_000;
    const long = [
      "<tool_call>".repeat(size / 11),
      `<tool_call>{"name":"search","arguments":{${'"a":1,'.repeat(size / 6)}`,
      `<tool_call>{"name":"search","arguments":{"a":"${"x".repeat(size)}"}}`,
      `<tool_call>search${"<arg_key>a</arg_key><arg_value>b</arg_value>".repeat(size / 44)}`,
      `<tool_call><function=search>${"<parameter=a>b</parameter>".repeat(size / 26)}`,
      `<tool_call><function=search><parameter=a>${"</parameter".repeat(size / 11)}`,
      " ".repeat(size),
      "<".repeat(size),
      `{${'"name":"search",'.repeat(size / 16)}`,
    ];
    for (const convention of ["tagged-json", "tagged-keys", "tagged-parameters", "bracketed", "bare-json"] as const) {
      for (const answer of long) {
        const chunks = answer.match(/.{1,5}/gsu) ?? [];
        const joined = parse(chunks, { convention });
        expect(joined.text.length + joined.calls.length).toBeGreaterThan(0);
      }
    }
  });

  test("takes a call beyond the limit for text", () => {
    const answer = `<tool_call>{"name":"search","arguments":{"a":"${"x".repeat(1_100_000)}"}}</tool_call>`;
    expect(parse([answer])).toMatchObject({ text: answer, calls: [] });
    const deep = `<tool_call>{"name":"search","arguments":${'{"a":'.repeat(200_000)}`;
    expect(parse([deep])).toMatchObject({ text: deep, calls: [] });
  });

  test("makes ids of nine characters where templates demand that", () => {
    const made = (convention: CallConvention, answer: string): string | undefined => {
      const parser = new ChatOutputParser({ convention, tools, reasoning: undefined, reasoningOpen: false });
      return join([...parser.push(answer), ...parser.end()]).calls[0]?.id;
    };
    expect(made("bracketed", '[TOOL_CALLS][{"name":"search"}]')).toMatch(/^[a-z0-9]{9}$/);
    expect(made("tagged-json", '<tool_call>{"name":"search"}</tool_call>')).toMatch(/^call_[a-z0-9]{24}$/);
  });
});
