// Chats without any HTTP, on a fake model.

import { describe, expect, test } from "vitest";
import { FakeModel } from "../server/testing/fake-model.js";
import { FakeChat, FakeGrammar } from "../server/testing/fake-services.js";
import { ChatCompletions } from "./chat-completions.js";
import type { ChatEvent } from "./chat-event.js";
import type { ChatRequest } from "./chat-request.js";

const HELLO: ChatRequest = { messages: [{ role: "user", content: "Hello!" }] };
const WEATHER = { name: "weather", parameters: { type: "object" } };

function setUp(answer = "Hi there") {
  const model = new FakeModel();
  model.script = { answer: () => answer };
  const renderer = new FakeChat();
  const grammars = new FakeGrammar();
  return { model, renderer, grammars, chats: new ChatCompletions({ renderer, grammars }) };
}

describe("a chat", () => {
  test("names the position from which the next turn differs, to models that keep checkpoints alone", async () => {
    const { model, chats } = setUp();
    await chats.start(model, HELLO).result;
    model.keepsCheckpoints = true;
    await chats.start(model, HELLO).result;
    const [plain, recurrent] = model.requests;
    expect(plain.checkpoints).toBeUndefined();
    expect(recurrent.checkpoints).toEqual([recurrent.prompt.length - 1]);
  });

  test("starts when it is first asked for something", async () => {
    const { model, chats, renderer } = setUp();
    const chat = chats.start(model, HELLO);
    await new Promise(setImmediate);
    expect([renderer.conversations.length, model.requests.length, chat.promptTokens]).toEqual([0, 0, 0]);
    const { choices, usage } = await chat.result;
    expect(choices).toEqual([
      { reason: "stop", stop: undefined, text: "Hi there", reasoning: "", toolCalls: [], textTokens: [] },
    ]);
    expect(usage).toEqual({
      promptTokens: chat.promptTokens,
      cachedTokens: 2,
      completionTokens: 8,
      reasoningTokens: 0,
    });
    expect(await chat.result).toBe(await chat.result);
  });

  test("gives text, reasoning and whole tool calls as events, and the same as its result", async () => {
    const { model, chats } = setUp('<think>hm</think>Well [weather {"city":"Rome"}]');
    const chat = chats.start(model, { ...HELLO, tools: [WEATHER] });
    const events: ChatEvent[] = [];
    for await (const event of chat) events.push(event);
    const call = { id: "call_0", name: "weather", arguments: '{"city":"Rome"}' };
    expect(events.filter(({ type }) => type !== "text")).toEqual([
      { type: "reasoning", choice: 0, text: "hm" },
      { type: "tool-call-start", choice: 0, index: 0, id: "call_0", name: "weather" },
      { type: "tool-call-delta", choice: 0, index: 0, text: '{"city":"Rome"}' },
      { type: "tool-call", choice: 0, index: 0, ...call },
      { type: "finish", choice: 0, ending: { reason: "tool-calls", stop: undefined } },
    ]);
    const { choices, usage } = await chat.result;
    const [choice] = choices;
    // The fake model has one byte a token, and the fake parser holds reasoning back until it is closed.
    expect(usage.reasoningTokens).toBe("<think>hm</think>".length);
    expect(choice).toMatchObject({ text: "Well ", reasoning: "hm", toolCalls: [call], reason: "tool-calls" });
  });

  test("compiles its response format and frees the constraint", async () => {
    const { model, chats, grammars } = setUp();
    await chats.start(model, { ...HELLO, responseFormat: { kind: "regex", pattern: ".*" } }).result;
    expect(grammars.specs).toEqual([{ kind: "regex", pattern: ".*" }]);
    expect(grammars.open).toBe(0);
  });

  test("is cancelled when its events are left, and its result has what came before", async () => {
    const { model, chats } = setUp("A long reply");
    const chat = chats.start(model, { ...HELLO, responseFormat: { kind: "json" } });
    for await (const event of chat) if (event.type === "text") break;
    expect([model.running, model.cancelled]).toEqual([0, 1]);
    expect((await chat.result).choices[0]).toMatchObject({ reason: "abort", text: "A" });
  });

  test("that is disposed before it has started does nothing, and has no result", async () => {
    const { model, chats } = setUp();
    const chat = chats.start(model, HELLO);
    await chat[Symbol.asyncDispose]();
    await expect(chat.result).rejects.toMatchObject({ name: "AbortError" });
    expect(model.requests).toEqual([]);
  });

  test("fails with the reason of its signal, in its events and its result", async () => {
    const { model, chats } = setUp();
    const reason = new Error("enough");
    const chat = chats.start(model, HELLO, { signal: AbortSignal.abort(reason) });
    await expect(
      (async () => {
        for await (const _ of chat);
      })(),
    ).rejects.toBe(reason);
    await expect(chat.result).rejects.toBe(reason);
  });

  test.each([
    [{ toolChoice: { kind: "named", name: "rain" }, tools: [WEATHER] }, "SERVING_REQUEST", "toolChoice"],
    [{ toolChoice: { kind: "required" } }, "SERVING_REQUEST", "toolChoice"],
    [{ tools: [WEATHER], responseFormat: { kind: "regex", pattern: "a" } }, "SERVING_UNSUPPORTED", "responseFormat"],
    [{ sampling: { logitBias: new Map([[9999, 1]]) } }, "SERVING_REQUEST", "logitBias"],
    [{ messages: [{ role: "user", content: "x".repeat(20_000) }] }, "CONTEXT_OVERFLOW", "messages"],
  ] satisfies [Partial<ChatRequest>, string, string][])("rejects %j with %s", async (request, code, field) => {
    const { model, chats } = setUp();
    await expect(chats.start(model, { ...HELLO, ...request }).result).rejects.toMatchObject({
      code,
      details: { field },
    });
  });
});

test("the tokens of a prompt are counted without completing it", async () => {
  const { model, chats } = setUp();
  expect(await chats.countTokens(model, HELLO)).toBe("user: Hello!\nassistant:".length + 1);
  expect(model.requests).toEqual([]);
});
