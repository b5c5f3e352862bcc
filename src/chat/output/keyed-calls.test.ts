// Calls with bare arguments between tags, as GLM and Qwen3-Coder write them: texts written for this, whole and cut into
// single characters.

import { describe, expect, test } from "vitest";
import type { CallConvention } from "./conventions.js";
import { callConvention } from "./convention.js";
import type { ChatTool } from "../message.js";
import type { ChatOutputParserOptions } from "./output-parser.js";
import { calling, parsed, type ParsedAnswer } from "../testing/parsed-reply.js";

const post: ChatTool = {
  name: "send_parcel",
  parameters: {
    type: "object",
    properties: {
      zip: { type: ["string", "null"] },
      number: { type: "integer" },
      fragile: { type: "boolean" },
      note: { type: "string" },
    },
  },
};

function read(
  answer: string,
  convention: CallConvention,
  options: Partial<ChatOutputParserOptions> = {},
): ParsedAnswer {
  const whole = parsed([answer], { convention, ...options });
  expect(parsed([...answer], { convention, ...options })).toStrictEqual(whole);
  return whole;
}

describe("GLM's keys and values", () => {
  test("are what the schema says, digit by digit", () => {
    const answer =
      "<tool_call>send_parcel\n<arg_key>zip</arg_key>\n<arg_value>90210</arg_value>\n<arg_key>number</arg_key>\n<arg_value>12345678901234567890</arg_value>\n</tool_call>";
    expect(read(answer, "tagged-keys", { tools: [post] })).toMatchObject({
      text: "",
      calls: [calling("send_parcel", '{"zip":"90210","number":12345678901234567890}')],
    });
  });

  test("are text where they go too deep", () => {
    const answer = `<tool_call>search<arg_key>x</arg_key><arg_value>${"[".repeat(20_000)}${"]".repeat(20_000)}</arg_value></tool_call> So.`;
    expect(parsed([answer], { convention: "tagged-keys" })).toMatchObject({ text: answer, calls: [] });
  });
});

describe("Qwen3-Coder's parameters", () => {
  const form = (answer: string, options: Partial<ChatOutputParserOptions> = {}): ParsedAnswer =>
    read(answer, "tagged-parameters", { tools: [post], ...options });

  test("are what the schema says", () => {
    const answer =
      "<think>two</think>\n\nSending.\n\n<tool_call>\n<function=send_parcel>\n<parameter=zip>\n90210\n</parameter>\n<parameter=number>\n12345678901234567890\n</parameter>\n" +
      '<parameter=fragile>\nTrue\n</parameter>\n<parameter=note>\n\n  a <b> & "c"\n</function>\nlast\n</parameter>\n<parameter=more>\n[1, 2]\n</parameter>\n</function>\n</tool_call>\n' +
      "<tool_call>\n<function=send_parcel>\n</function>\n</tool_call>\nDone.";
    expect(form(answer)).toStrictEqual({
      text: "Sending.Done.",
      reasoning: "two",
      order: "reasoning text call arguments call-end call arguments call-end text",
      calls: [
        calling(
          "send_parcel",
          String.raw`{"zip":"90210","number":12345678901234567890,"fragile":true,"note":"\n  a <b> & \"c\"\n</function>\nlast","more":[1, 2]}`,
        ),
        calling("send_parcel", "{}", "id1"),
      ],
    });
  });

  test("may stand in one line, without the outer tags, and without the last of them", () => {
    const inner = "<function=send_parcel><parameter=zip>null</parameter></function>";
    const wanted = calling("send_parcel", '{"zip":null}');
    expect(form(`<tool_call>${inner}</tool_call>`)).toMatchObject({ text: "", calls: [wanted] });
    expect(form(`So: ${inner}\n</tool_call> Yes.`)).toMatchObject({ text: "So:Yes.", calls: [wanted] });
    expect(form(`<tool_call>\n${inner}`)).toMatchObject({ text: "", calls: [wanted] });
    expect(form(`<tool_call>\n${inner}\n${inner}\n</tool_call>`)).toMatchObject({
      text: "",
      calls: [wanted, { ...wanted, id: "id1" }],
    });
  });

  test("may be Hermes' JSON after all", () => {
    expect(form('<tool_call>\n{"name": "send_parcel", "arguments": {"zip": "1"}}\n</tool_call>').calls).toStrictEqual([
      calling("send_parcel", '{"zip": "1"}'),
    ]);
  });

  test.each([
    ["a call that is cut off", "A <tool_call>\n<function=send_parcel>\n<parameter=zip>\n902"],
    [
      "one that is cut off between its parameters",
      "<tool_call>\n<function=send_parcel>\n<parameter=zip>\n1\n</parameter>\n",
    ],
    [
      "a parameter that is not closed",
      "<tool_call>\n<function=send_parcel>\n<parameter=zip>\n1\n</function>\n</tool_call>",
    ],
    [
      "text between parameters",
      "<tool_call><function=send_parcel>so <parameter=zip>1</parameter></function></tool_call>",
    ],
    ["a name that is none", "<tool_call><function=a b></function></tool_call>"],
    ["no name", "<tool_call><function=></function></tool_call>"],
    [
      "a function outside the tags that is no tool",
      "In XML it is <function=other><parameter=a>1</parameter></function>.",
    ],
    ["prose about the tags", "Write <tool_call>, then <function=NAME> and so on <func"],
    [
      "what goes too deep",
      `<tool_call><function=send_parcel><parameter=x>${"[".repeat(200)}${"]".repeat(200)}</parameter></function></tool_call>`,
    ],
  ])("are text: %s", (_what, answer) => {
    expect(form(answer)).toMatchObject({ text: answer, calls: [] });
  });

  test("are text beyond the limit", () => {
    const answer = `<tool_call><function=send_parcel>${`<parameter=a>${"x".repeat(1000)}</parameter>`.repeat(1100)}</function></tool_call>`;
    expect(parsed([answer], { convention: "tagged-parameters" })).toMatchObject({ text: answer, calls: [] });
  });
});

describe("the convention", () => {
  test.each<[CallConvention, string]>([
    ["tagged-parameters", "…'<tool_call>\\n<function=' + name + '>\\n' … '<parameter=' + key + '>\\n' …"],
    ["tagged-keys", "<tool_call>{{ name }}<arg_key>{{ k }}</arg_key>"],
    ["tagged-json", '<tool_call>\n{"name": …}'],
    ["bare-json", "<other:tool_call><function=a><parameter=b>"],
  ])("is told from the template: %s", (convention, template) => {
    expect(callConvention(template)).toBe(convention);
  });
});
