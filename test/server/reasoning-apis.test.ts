// Thoughts and calls of a harmony model in each API: blocks and items as they are named there, reasoning tokens in the
// usage, effort in the prompt, and what a client sends back in the next prompt.

import { afterAll, beforeAll, expect, test } from "vitest";
import { ChatRenderer } from "../../src/chat/chat-renderer.js";
import { GrammarCompilers } from "../../src/completion/grammar-compilers.js";
import { createServer, type Server } from "../../src/server/server.js";
import { FakeModelPool } from "../../src/server/testing/fake-model.js";
import { eventsOf } from "../../src/server/testing/test-server.js";
import { CONVENTION_FAMILIES } from "../library/chat/convention-families.js";
import { ScriptedFamily } from "./scripted-family.js";

const REPLY =
  "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>" +
  '<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query":"x"}<|call|>';
const parameters = { type: "object", properties: { query: { type: "string" } } };

let server: Server;
let url: string;
let renderer: ChatRenderer;
let grammars: GrammarCompilers;
let model: ScriptedFamily;

beforeAll(async () => {
  renderer = new ChatRenderer({ deadlineMs: 30_000, threads: 1 });
  grammars = new GrammarCompilers();
  model = new ScriptedFamily("oss", CONVENTION_FAMILIES["harmony"]);
  model.reply = REPLY;
  server = createServer({ pool: new FakeModelPool(model), chat: renderer, grammar: grammars, port: 0 });
  url = await server.listen();
});
afterAll(async () => {
  await server.stop(0);
  await grammars[Symbol.asyncDispose]();
  await renderer[Symbol.asyncDispose]();
});

async function post(path: string, body: object): Promise<{ readonly text: string; readonly status: number }> {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "oss", ...body }),
  });
  return { text: await response.text(), status: response.status };
}

/** Tokens up to the start of the preamble's text; those of its header count as what follows them. */
const thoughtTokens = (): number =>
  model.tokenizer.encode("<|channel|>analysis<|message|>Let me think.", { addSpecial: false, parseSpecial: true })
    .length;

test("the Responses API has a reasoning item, and counts its tokens", async () => {
  const tools = [{ type: "function", name: "search", parameters, strict: false }];
  const body = { input: "Hi", tools, reasoning: { effort: "high" } };
  const { text } = await post("/v1/responses", body);
  const { output, usage } = JSON.parse(text);
  expect(output).toMatchObject([
    { type: "reasoning", content: [{ type: "reasoning_text", text: "Let me think." }] },
    { type: "message", content: [{ type: "output_text", text: "I look." }] },
    { type: "function_call", name: "search", arguments: '{"query":"x"}' },
  ]);
  expect(usage.output_tokens_details).toStrictEqual({ reasoning_tokens: thoughtTokens() });
  expect(model.prompt).toContain("Reasoning: high");

  const events = eventsOf((await post("/v1/responses", { ...body, stream: true })).text);
  expect(events.at(-1).response.usage).toStrictEqual(usage);

  // The client sends all of it back, with the result.
  const call = output[2];
  const input = [
    { role: "user", content: "Hi" },
    ...output,
    { type: "function_call_output", call_id: call.call_id, output: "Found." },
  ];
  await post("/v1/responses", { ...body, input });
  expect(model.prompt).toContain("Let me think.");
  expect(model.prompt).toContain('to=functions.search<|channel|>commentary json<|message|>{"query": "x"}<|call|>');
  expect(model.prompt).toContain("Found.");
});

test("the Messages API has thinking blocks, which the client sends back", async () => {
  const tools = [{ name: "search", input_schema: parameters }];
  const user = { role: "user", content: "Hi" };
  const body = { max_tokens: 100, tools, thinking: { type: "enabled", budget_tokens: 1024 }, messages: [user] };
  const { content, stop_reason } = JSON.parse((await post("/v1/messages", body)).text);
  expect(content).toMatchObject([
    { type: "thinking", thinking: "Let me think." },
    { type: "text", text: "I look." },
    { type: "tool_use", name: "search", input: { query: "x" } },
  ]);
  expect(stop_reason).toBe("tool_use");
  const events = eventsOf((await post("/v1/messages", { ...body, stream: true })).text);
  const deltas = events.filter(({ type }) => type === "content_block_delta").map(({ delta }) => delta);
  expect(deltas.map(({ thinking = "" }) => thinking).join("")).toBe("Let me think.");
  expect(deltas.map(({ partial_json: part = "" }) => part).join("")).toBe('{"query":"x"}');

  const result = { type: "tool_result", tool_use_id: content[2].id, content: "Found." };
  const messages = [user, { role: "assistant", content }, { role: "user", content: [result] }];
  await post("/v1/messages", { ...body, messages });
  expect(model.prompt).toContain("Let me think.");
  expect(model.prompt).toContain("Found.");
});

test("chat completions take efforts, and thoughts under either name", async () => {
  const history = (field: string): object[] => [
    { role: "user", content: "Hi" },
    {
      role: "assistant",
      content: null,
      [field]: "Earlier thoughts.",
      tool_calls: [{ id: "c", type: "function", function: { name: "search", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c", content: "Found." },
  ];
  for (const field of ["reasoning_content", "reasoning"]) {
    const tools = [{ type: "function", function: { name: "search", parameters } }];
    const { status, text } = await post("/v1/chat/completions", {
      messages: history(field),
      tools,
      reasoning_effort: "minimal",
    });
    expect([status, JSON.parse(text).usage.completion_tokens_details]).toStrictEqual([
      200,
      { reasoning_tokens: thoughtTokens() },
    ]);
    expect(model.prompt).toContain("Earlier thoughts.");
    expect(model.prompt).toContain("Reasoning: low");
  }
  const messages = [{ role: "user", content: "Hi" }];
  await post("/v1/chat/completions", { messages, chat_template_kwargs: { reasoning_effort: "high" } });
  expect(model.prompt).toContain("Reasoning: high");
  await post("/v1/chat/completions", { messages, enable_thinking: false });
  expect(model.prompt).toContain("Reasoning: low");
});
