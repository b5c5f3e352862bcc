// What SDKs send in two turns of a conversation with a tool, written down from their sessions with this server: AI SDK 6 and
// 7 with their providers, OpenAI's Agents SDK 0.20. The SDKs themselves are in test/server/clients.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startServer, type TestServer } from "../../src/server/testing/test-server.js";

let served: TestServer;
beforeAll(async () => {
  served = await startServer();
});
afterAll(() => served[Symbol.asyncDispose]());
beforeEach(() => {
  served.log.length = 0;
  served.grammar.specs.length = 0;
});

const CALL = `[weather {"city":"Oslo"}]`;
const ANSWER = `{"city":"Oslo","rain":true}`;
const parameters = {
  $schema: "http://json-schema.org/draft-07/schema#",
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const place = {
  $schema: "http://json-schema.org/draft-07/schema#",
  type: "object",
  properties: { city: { type: "string" }, rain: { type: "boolean" } },
  required: ["city", "rain"],
  additionalProperties: false,
};
const description = "The weather in a city";
const question = "What is the weather?";
/** Both turns are held to these. */
const forms = [
  { prefix: "[weather ", schema: parameters, suffix: "]" },
  { prefix: "", schema: place, suffix: "" },
];

async function post(path: string, body: object, says: string) {
  served.model.script.answer = () => says;
  const { status, json } = await served.post(path, body);
  expect([status, served.log.join("")]).toEqual([200, expect.not.stringContaining("unknown fields")]);
  return json;
}

const lastTurn = () => served.chat.conversations.at(-1)?.messages.slice(-2);
const TURN = [
  { role: "assistant", content: "", toolCalls: [{ id: "call_0", name: "weather", arguments: `{"city":"Oslo"}` }] },
  { role: "tool", content: "It rains.", toolCallId: "call_0" },
];

describe("AI SDK", () => {
  test("openai(…) refers to items of the response before", async () => {
    const tools = [{ type: "function", name: "weather", description, parameters }];
    const asked = { role: "user", content: [{ type: "input_text", text: question }] };
    const first = await post(
      "/v1/responses",
      { model: "gpt-5", input: [asked], tools, tool_choice: "auto" },
      `<think>I look.</think>${CALL}`,
    );
    const input = [
      asked,
      { type: "item_reference", id: first.output[0].id },
      { type: "function_call", call_id: "call_0", name: "weather", arguments: `{"city":"Oslo"}` },
      { type: "function_call_output", call_id: "call_0", output: "It rains." },
    ];
    const second = await post(
      "/v1/responses",
      { model: "gpt-5", input, tools, tool_choice: "auto" },
      "It rains in Oslo.",
    );
    expect(second.output).toMatchObject([{ type: "message", content: [{ text: "It rains in Oslo." }] }]);
    expect(lastTurn()).toEqual([{ ...TURN[0], reasoning: "I look." }, TURN[1]]);
    // Its next version refers to the call as well.
    const [user, reasoning, , output] = input;
    await post(
      "/v1/responses",
      { model: "gpt-5", input: [user, reasoning, { type: "item_reference", id: first.output[1].id }, output], tools },
      "It rains in Oslo.",
    );
    expect(lastTurn()).toEqual([{ ...TURN[0], reasoning: "I look." }, TURN[1]]);
  });

  test("openai.chat(…) and openai-compatible: tools and a form", async () => {
    const body = {
      model: "gpt-5",
      response_format: { type: "json_schema", json_schema: { schema: place, strict: true, name: "response" } },
      tools: [{ type: "function", function: { name: "weather", description, parameters } }],
      tool_choice: "auto",
    };
    const asked = { role: "user", content: question };
    const first = await post("/v1/chat/completions", { ...body, messages: [asked] }, CALL);
    const { message } = first.choices[0];
    expect(first.choices[0].finish_reason).toBe("tool_calls");
    const messages = [
      asked,
      { role: "assistant", content: null, tool_calls: message.tool_calls },
      { role: "tool", tool_call_id: "call_0", content: "It rains." },
    ];
    const second = await post("/v1/chat/completions", { ...body, messages }, ANSWER);
    expect(second.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: ANSWER } });
    expect(lastTurn()).toEqual(TURN);
    expect(served.grammar.specs).toEqual([
      { kind: "forms", forms },
      { kind: "forms", forms },
    ]);
  });

  test("anthropic(…): a text block is its text and nothing else", async () => {
    const body = {
      model: "claude-sonnet-4-5",
      max_tokens: 64_000,
      output_config: { format: { type: "json_schema", schema: place } },
      tools: [{ name: "weather", description, input_schema: parameters }],
      tool_choice: { type: "auto" },
    };
    const asked = { role: "user", content: [{ type: "text", text: question }] };
    const first = await post("/v1/messages", { ...body, messages: [asked] }, CALL);
    expect(first.stop_reason).toBe("tool_use");
    const messages = [
      asked,
      { role: "assistant", content: [{ type: "tool_use", id: "call_0", name: "weather", input: { city: "Oslo" } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_0", content: "It rains." }] },
    ];
    const second = await post("/v1/messages", { ...body, messages }, ANSWER);
    expect(second.content).toEqual([{ type: "text", text: ANSWER }]);
    expect(lastTurn()).toEqual(TURN);
    expect(served.grammar.specs).toEqual([
      { kind: "forms", forms },
      { kind: "forms", forms },
    ]);
  });
});

test("Agents SDK: an output type beside tools, and a conversation that goes on by id", async () => {
  const body = {
    model: "gpt-5",
    instructions: "Answer briefly.",
    include: [],
    tools: [{ type: "function", name: "weather", description, parameters, strict: true }],
    stream: false,
    text: { format: { type: "json_schema", name: "output", strict: true, schema: place } },
  };
  const asked = { role: "user", content: question };
  const first = await post("/v1/responses", { ...body, input: [asked] }, CALL);
  const result = { type: "function_call_output", call_id: "call_0", output: "It rains.", status: "completed" };
  const second = await post("/v1/responses", { ...body, input: [asked, first.output[0], result] }, ANSWER);
  expect(lastTurn()).toEqual(TURN);
  const third = await post(
    "/v1/responses",
    { ...body, input: [{ role: "user", content: "And now?" }], previous_response_id: second.id },
    ANSWER,
  );
  expect(third.previous_response_id).toBe(second.id);
  expect(served.chat.conversations.at(-1)?.messages).toEqual([
    { role: "system", content: "Answer briefly." },
    { role: "user", content: question },
    ...TURN,
    { role: "assistant", content: ANSWER },
    { role: "user", content: "And now?" },
  ]);
  expect(served.grammar.specs).toEqual([1, 2, 3].map(() => ({ kind: "forms", forms })));
});
