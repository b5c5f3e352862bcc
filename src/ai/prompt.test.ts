// Prompts of the SDK as messages: what becomes text, what is left out, and what is refused.

import type { LanguageModelV4Message } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import { promptMessages } from "./prompt.js";

const bytes = (text: string): Uint8Array => Buffer.from(text);
const user = (...content: Extract<LanguageModelV4Message, { role: "user" }>["content"]) =>
  promptMessages([{ role: "user", content }]).messages[0].content;

describe("user messages", () => {
  it("joins texts as they are, and sets files apart", () => {
    expect(
      user(
        { type: "text", text: "Read " },
        { type: "text", text: "this:" },
        {
          type: "file",
          mediaType: "text/markdown; charset=utf-8",
          filename: "a.md",
          data: { type: "data", data: bytes("# A") },
        },
        { type: "file", mediaType: "text", data: { type: "text", text: "plain" } },
        { type: "text", text: "Done." },
      ),
    ).toBe("Read this:\n\na.md:\n# A\n\nplain\n\nDone.");
  });

  it.each(["application/json", "application/vnd.api+json", "image/svg+xml", "TEXT/CSV"])(
    "reads %s as text",
    (mediaType) => {
      const data = Buffer.from('{"é": 1}').toString("base64");
      expect(user({ type: "file", mediaType, data: { type: "data", data } })).toBe('{"é": 1}');
    },
  );

  it.each([
    ["an image", { mediaType: "image/png", data: { type: "data", data: bytes("x") } }, "image/png files"],
    ["a PDF", { mediaType: "application/pdf", data: { type: "data", data: bytes("x") } }, "application/pdf files"],
    [
      "bytes that are not UTF-8",
      { mediaType: "text/plain", data: { type: "data", data: Uint8Array.of(0xff) } },
      "text/plain files that are not UTF-8",
    ],
    [
      "an address",
      { mediaType: "text/plain", data: { type: "url", url: new URL("https://example.com/a.txt") } },
      "files by address",
    ],
    [
      "a reference",
      { mediaType: "text/plain", data: { type: "reference", reference: { other: "id" } } },
      "files by reference",
    ],
  ] as const)("rejects %s with its place", (_, file, functionality) => {
    expect(() => user({ type: "text", text: "Look:" }, { type: "file", ...file })).toThrow(
      expect.objectContaining({
        name: "AI_UnsupportedFunctionalityError",
        code: "SERVING_REQUEST",
        functionality,
        message: expect.stringMatching(/^\[prompt\[0\]\.content\[1\]\] expected text/) as string,
      }) as Error,
    );
  });
});

describe("assistant messages", () => {
  it("have their reasoning, text and calls", () => {
    const { messages, warnings } = promptMessages([
      {
        role: "assistant",
        content: [
          { type: "reasoning", text: "I look." },
          { type: "text", text: "Let me see." },
          { type: "tool-call", toolCallId: "1", toolName: "weather", input: { city: "Oslo" } },
          { type: "tool-call", toolCallId: "2", toolName: "clock", input: undefined },
        ],
      },
    ]);
    expect(warnings).toEqual([]);
    expect(messages).toEqual([
      {
        role: "assistant",
        content: "Let me see.",
        reasoning: "I look.",
        toolCalls: [
          { id: "1", name: "weather", arguments: '{"city":"Oslo"}' },
          { id: "2", name: "clock", arguments: "null" },
        ],
      },
    ]);
  });

  it("are cut behind results of tools that another provider ran", () => {
    const { messages } = promptMessages([
      {
        role: "assistant",
        content: [
          { type: "tool-call", toolCallId: "1", toolName: "search", input: {}, providerExecuted: true },
          { type: "tool-result", toolCallId: "1", toolName: "search", output: { type: "json", value: ["fox"] } },
          { type: "text", text: "A fox." },
        ],
      },
    ]);
    expect(messages).toEqual([
      { role: "assistant", content: "", toolCalls: [{ id: "1", name: "search", arguments: "{}" }] },
      { role: "tool", content: '["fox"]', toolCallId: "1", name: "search" },
      { role: "assistant", content: "A fox." },
    ]);
  });

  it("lose what only other providers know, with a warning", () => {
    const { messages, warnings } = promptMessages([
      {
        role: "assistant",
        content: [
          { type: "file", mediaType: "image/png", data: { type: "data", data: bytes("x") } },
          { type: "custom", kind: "other.block" },
        ],
      },
    ]);
    expect(messages).toEqual([{ role: "assistant", content: "" }]);
    expect(warnings).toMatchObject([
      { type: "unsupported", feature: "file parts of assistant messages" },
      { type: "unsupported", feature: "custom parts of assistant messages" },
    ]);
  });
});

it("tool messages have one result each, whatever its form; approvals are no results", () => {
  const result = (output: object) => ({ type: "tool-result", toolCallId: "1", toolName: "t", output }) as never;
  const { messages } = promptMessages([
    { role: "system", content: "Be brief." },
    {
      role: "tool",
      content: [
        result({ type: "text", value: "rain" }),
        result({ type: "json", value: { rain: true } }),
        result({ type: "error-text", value: "no such city" }),
        result({ type: "error-json", value: null }),
        result({ type: "execution-denied" }),
        result({ type: "execution-denied", reason: "Not today." }),
        result({
          type: "content",
          value: [
            { type: "text", text: "see" },
            { type: "file", mediaType: "text/csv", filename: "a.csv", data: { type: "text", text: "1,2" } },
            { type: "custom" },
          ],
        }),
        { type: "tool-approval-response", approvalId: "a", approved: true },
      ],
    },
  ]);
  expect(messages.map(({ role, content }) => `${role}: ${content}`)).toEqual([
    "system: Be brief.",
    "tool: rain",
    'tool: {"rain":true}',
    "tool: no such city",
    "tool: null",
    "tool: The user denied the execution of this tool.",
    "tool: Not today.",
    "tool: see\na.csv:\n1,2",
  ]);
  expect(messages[1]).toMatchObject({ toolCallId: "1", name: "t" });
});
