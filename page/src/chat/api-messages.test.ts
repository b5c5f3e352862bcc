import { describe, expect, it } from "vitest";
import { apiMessages, parseTools, settingFields, withAttachments } from "./api-messages";
import { DEFAULT_SETTINGS, type Message, titleOf } from "./message";

const base = { conversationId: "c", parentId: null, createdAt: 0 };
const branch: readonly Message[] = [
  { ...base, id: "1", role: "user", content: "Hi" },
  { ...base, id: "2", role: "assistant", content: "", end: "error", error: "broken" },
  { ...base, id: "3", role: "assistant", content: "", toolCalls: [{ id: "x", name: "f", arguments: "{}" }] },
  { ...base, id: "4", role: "tool", content: "5", toolCallId: "x" },
];

describe("the messages of a request", () => {
  it("are the branch without answers that failed, after the system prompt", () => {
    const messages = apiMessages(branch, { ...DEFAULT_SETTINGS, systemPrompt: "Be brief." });
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool"]);
    expect(messages[2]?.tool_calls?.[0]).toEqual({
      id: "x",
      type: "function",
      function: { name: "f", arguments: "{}" },
    });
    expect(messages[3]).toEqual({ role: "tool", content: "5", tool_call_id: "x" });
  });

  it("fence attachments with more backticks than they contain", () => {
    expect(withAttachments("Why?", [{ name: "a.md", text: "```js\n1\n```\n" }])).toBe(
      "a.md:\n````\n```js\n1\n```\n````\n\nWhy?",
    );
  });

  it("have the fields that were set, and no others", () => {
    expect(settingFields(DEFAULT_SETTINGS)).toEqual({});
    expect(settingFields({ ...DEFAULT_SETTINGS, temperature: 0, topP: 0.5, reasoning: "off" })).toEqual({
      temperature: 0,
      top_p: 0.5,
      reasoning_effort: "none",
    });
  });

  it("take tools with and without their wrapper, and reject others", () => {
    const wrapped = { type: "function", function: { name: "f" } };
    expect(parseTools('[{"name":"f"}]')).toEqual([wrapped]);
    expect(parseTools(JSON.stringify([wrapped]))).toEqual([wrapped]);
    expect(() => parseTools("{}")).toThrow("JSON list");
    expect(() => parseTools("[1]")).toThrow("JSON object");
  });
});

it("shortens titles at a word", () => {
  expect(titleOf("Hello\nthere")).toBe("Hello");
  expect(titleOf(`${"word ".repeat(30)}`)).toMatch(/^(?:word )+word…$/);
  expect(titleOf("  ")).toBe("New chat");
});
