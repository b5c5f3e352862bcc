// The library's chat on the embedded model: the template, tools, structured output, sessions, and how chats end.

import { writeFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import {
  embeddedModelPath,
  loadModel,
  type Model,
  type Reply,
  type ReplyEvent,
  Session,
  type Tool,
} from "../../../src/index.js";

let model: Model;
let folder: string;

beforeAll(async () => {
  model = await loadModel(embeddedModelPath(), { backend: "cpu" });
  folder = await mkdtemp(join(tmpdir(), "rocmforge-chat-"));
});

afterAll(async () => {
  await model.dispose();
  await rm(folder, { recursive: true });
});

const user = (content: string) => [{ role: "user", content }] as const;
/** Longer than a block of the KV cache, which is what the prefix cache holds. */
const LONG =
  "Once there was a fox who lived beside the sea, and a king who wanted to know how the tides come and go. ".repeat(3);
const GREEDY = { temperature: 0, maxTokens: 24 } as const;

describe("chat", () => {
  test("events add up to the reply, and the same seed gives it again", async () => {
    const chat = model.chat(user(`${LONG} Who is the hero?`), { seed: 5, maxTokens: 32 });
    let text = "";
    for await (const event of chat) if (event.type === "text") text += event.text;
    const reply = await chat.result;
    expect(reply.text).toBe(text);
    expect(reply.usage.promptTokens).toBeGreaterThan(4);
    expect(reply.usage.completionTokens).toBeGreaterThan(0);
    expect(reply.message).toEqual({ role: "assistant", content: text });
    const again = await model.chat(user(`${LONG} Who is the hero?`), { seed: reply.seed, maxTokens: 32 }).result;
    expect(again.text).toBe(text);
    expect(again.usage.cachedTokens).toBeGreaterThan(0);
  });

  test("a result that is asked for first leaves its events to be read", async () => {
    const chat = model.chat(user("Who?"), GREEDY);
    const { text } = await chat.result;
    const events = [];
    for await (const event of chat) events.push(event);
    expect(events).toEqual([{ type: "text", text }]);
    expect(() => chat[Symbol.asyncIterator]()).toThrow(/iterated only once/);
  });

  test("awaiting a chat, a turn or a generation is awaiting its result", async () => {
    const reply = await model.chat(user("Who?"), GREEDY);
    expectTypeOf(reply).toEqualTypeOf<Reply>();
    expect(reply.text).toBe((await model.chat(user("Who?"), GREEDY).result).text);
    const session = model.session({ chat: GREEDY });
    await session.say("Who?");
    expect(session.messages).toHaveLength(2);
    const texts = await Promise.all(["A fox", "A king"].map((prompt) => model.generate(prompt, GREEDY)));
    expect(texts.map(({ usage }) => usage.completionTokens)).toEqual([24, 24]);
    await expect(model.chat(user("Who?"), { regex: "(" })).rejects.toMatchObject({ code: "GRAMMAR_INVALID" });
  });

  test("an object typed by a Zod schema", async () => {
    const schema = z.object({ name: z.string().max(12), age: z.int().min(1).max(99), kind: z.enum(["fox", "king"]) });
    const { object, finishReason } = await model.chat(user("Describe the hero."), { schema, seed: 1 }).result;
    expectTypeOf(object).toEqualTypeOf<z.infer<typeof schema>>();
    expect(finishReason).toBe("stop");
    expect(schema.parse(object)).toEqual(object);
  });

  test("what the schema refuses beyond its JSON Schema is an error with its reason", async () => {
    const schema = z.object({ age: z.int().min(1).max(9) }).refine(() => false, "never right");
    const chat = model.chat(user("Describe."), { schema, seed: 1 });
    await expect(chat.result).rejects.toMatchObject({
      code: "CHAT_SCHEMA",
      message: expect.stringContaining("never right") as string,
    });
  });

  test("an object of a plain JSON Schema, a regular expression and a grammar", async () => {
    const { object } = await model.chat(user("Yes or no?"), { schema: { enum: ["yes", "no"] } }).result;
    expect(["yes", "no"]).toContain(object);
    const { text } = await model.chat(user("A number?"), { regex: /[0-9]{3}-[0-9]{2}/ }).result;
    expect(text).toMatch(/^[0-9]{3}-[0-9]{2}$/);
    const { text: coin } = await model.chat(user("Toss."), { grammar: 'root ::= "heads" | "tails"' }).result;
    expect(["heads", "tails"]).toContain(coin);
  });

  test("a reply that is cut off has no object, and says why", async () => {
    const reply = await model.chat(user("Describe."), { schema: { type: "string", minLength: 50 }, maxTokens: 3 })
      .result;
    expect(reply.finishReason).toBe("length");
    expect(() => reply.object).toThrow(/ended with "length"/);
  });

  const weather: Tool = {
    name: "weather",
    description: "The weather of a town",
    parameters: z.object({ town: z.enum(["Oslo", "Rome"]) }),
  };

  test("a required tool is called with arguments that satisfy its schema", async () => {
    const chat = model.chat(user("What is the weather?"), { tools: [weather], toolChoice: "required", seed: 2 });
    const events: ReplyEvent[] = [];
    for await (const event of chat) events.push(event);
    const calls = events.filter((event) => event.type === "tool-call");
    const { toolCalls, finishReason, message } = await chat.result;
    expect(finishReason).toBe("tool-calls");
    // The call as it grows: its name first, then its arguments under the same id.
    const [{ id, name, arguments: text }] = toolCalls;
    expect(events[0]).toEqual({ type: "tool-call-start", id, name });
    const deltas = events.filter((event) => event.type === "tool-call-delta" && event.id === id);
    expect(deltas.map((event) => (event as { text: string }).text).join("")).toBe(text);
    expect(calls.map(({ input }) => input)).toEqual(toolCalls.map(({ input }) => input));
    expect(["Oslo", "Rome"]).toContain((toolCalls[0].input as { town: string }).town);
    expect(message.toolCalls).toHaveLength(1);
  });

  test("leaving the loop cancels and frees", async () => {
    const chat = model.chat(user("Tell a long story."), { maxTokens: 400, ignoreEndOfGeneration: true });
    for await (const _ of chat) break;
    const { finishReason } = await chat.result;
    expect(finishReason).toBe("abort");
    expect(model.statistics().running).toBe(0);
  });

  test("a signal ends it with the text so far, before it begins too", async () => {
    const ending = new AbortController();
    const options = { maxTokens: 3000, ignoreEndOfGeneration: true, signal: ending.signal };
    const chat = model.chat(user("Tell a long story."), options);
    let text = "";
    for await (const event of chat) {
      if (event.type !== "text") continue;
      text += event.text;
      ending.abort(new Error("enough"));
    }
    const reply = await chat.result;
    expect(reply).toMatchObject({ text, finishReason: "abort" });
    expect(text).not.toBe("");
    expect(reply.usage.completionTokens).toBeLessThan(3000);
    expect(await model.chat(user("Again."), options)).toMatchObject({ text: "", finishReason: "abort" });
    const session = model.session();
    expect((await session.say("Hello", { signal: ending.signal })).usage.completionTokens).toBe(0);
    expect(session.messages).toEqual([]);
    expect(model.statistics().running).toBe(0);
  });

  test("rejects messages and options that cannot be, with their place", () => {
    expect(() => model.chat("hello" as never)).toThrow(/\[chat\] messages: expected a list/);
    expect(() => model.chat([{ role: "robot", content: "x" } as never])).toThrow(/messages\[0\]\.role/);
    expect(() => model.chat(user("x"), { tempratur: 1 } as never)).toThrow(/temperature/);
    expect(() => model.chat(user("x"), { schema: {}, regex: "a" })).toThrow(/one of schema, regex and grammar/);
    expect(() => model.chat(user("x"), { tools: [{}] as never })).toThrow(/tools\[0\]/);
  });
});

describe("generate", () => {
  test("follows a regular expression, a grammar or a schema", async () => {
    const { text } = await model.generate("The number is ", { regex: "[0-9]{4}", seed: 3 }).result;
    expect(text).toMatch(/^[0-9]{4}$/);
    const { text: json } = await model.generate("The king", { schema: z.object({ age: z.int().min(1).max(99) }) })
      .result;
    expect((JSON.parse(json) as { age: number }).age).toBeGreaterThan(0);
    const wrong = model.generate("x", { grammar: "root ::= (" }).result;
    await expect(wrong).rejects.toMatchObject({ code: "GRAMMAR_INVALID" });
  });
});

describe("session", () => {
  test("keeps the conversation, its prefix cached, and goes on from a file", async () => {
    const session = model.session({ system: `You are a patient teacher. ${LONG}`, chat: GREEDY });
    const first = await session.say("Hello").result;
    const second = await session.say("And then?").result;
    expect(second.usage.cachedTokens).toBeGreaterThan(0);
    expect(session.messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "user", "assistant"]);
    expect(session.messages[2]?.content).toBe(first.text);
    const path = join(folder, "talk.json");
    await session.save(path);
    const loaded = await model.loadSession(path, { chat: GREEDY });
    expect(loaded.messages).toEqual(session.messages);
    expect((await loaded.say("Go on.").result).text).toBe((await session.say("Go on.").result).text);
  });

  test("one turn at a time; a turn that fails leaves the conversation as it was", async () => {
    const session = model.session({ chat: GREEDY });
    const chat = session.say("Hello");
    const other = session.say("Hello?");
    const result = chat.result;
    await expect(other.result).rejects.toMatchObject({ code: "CHAT_SESSION" });
    await result;
    const schema = z
      .string()
      .max(3)
      .refine(() => false);
    await expect(session.say("Fail", { schema, maxTokens: 20 }).result).rejects.toMatchObject({ code: "CHAT_SCHEMA" });
    expect(session.messages).toHaveLength(2);
  });

  test("the result of a tool answers its call", () => {
    expect(Session.toolResult({ id: "call_1", name: "weather" }, { sun: true })).toEqual({
      role: "tool",
      content: '{"sun":true}',
      toolCallId: "call_1",
      name: "weather",
    });
  });

  test.each([
    "",
    "{}",
    "[]",
    '{"format":"rocmforge-session-1"}',
    '{"format":"rocmforge-session-1","messages":[{"role":1}]}',
  ])("rejects the damaged file %j", async (text) => {
    const path = join(folder, "damaged.json");
    writeFileSync(path, text);
    await expect(model.loadSession(path)).rejects.toMatchObject({ code: "CHAT_SESSION" });
    await expect(readFile(path, "utf8")).resolves.toBe(text);
  });

  test("rejects a file that is not there", async () => {
    await expect(model.loadSession(join(folder, "absent.json"))).rejects.toMatchObject({ name: "FileError" });
  });
});

test.each([0, 10, 300])("disposing after %d ms ends a chat with a reason that speaks of the model", async (pauseMs) => {
  const other = await loadModel(embeddedModelPath(), { backend: "cpu" });
  const chat = other.chat(user("Tell a long story."), { maxTokens: 400, ignoreEndOfGeneration: true });
  const result = chat.result.catch((error: unknown) => error);
  await new Promise((resolve) => setTimeout(resolve, pauseMs));
  await other.dispose();
  expect(String(await result)).toMatch(/the model was used/);
  expect(() => other.chat(user("x"))).toThrow(/model/);
});
