// Responses that are stored: what a later request can build on, and who may see them.

import OpenAI from "openai";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startServer, type TestServer } from "../../src/server/testing/test-server.js";

const PATH = "/v1/responses";
const CALL = `[weather {"city":"Oslo"}]`;
const tools = [{ type: "function" as const, name: "weather", parameters: { type: "object" }, strict: false }];

let served: TestServer;
let openai: OpenAI;
beforeEach(async () => {
  served = await startServer();
  openai = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none-needed", maxRetries: 0 });
});
afterEach(() => served[Symbol.asyncDispose]());

const lastMessages = () => served.chat.conversations.at(-1)?.messages;

describe("previous_response_id", () => {
  test.each([false, true])("goes on where a response ended (streamed: %s)", async (stream) => {
    served.model.script.answer = () => `<think>hm</think>Well. ${CALL}`;
    const ask = { model: "fake", input: "Hi", instructions: "Be brief", tools };
    const first = stream ? await openai.responses.stream(ask).finalResponse() : await openai.responses.create(ask);
    expect(first).toMatchObject({ store: true });
    served.model.script.answer = () => "Sunny.";
    const second = await openai.responses.create({
      model: "fake",
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: "call_0", output: "sun" }],
      tools,
    });
    expect(second).toMatchObject({ previous_response_id: first.id, output_text: "Sunny." });
    const soFar = [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: "Well. ",
        reasoning: "hm",
        toolCalls: [{ id: "call_0", name: "weather", arguments: `{"city":"Oslo"}` }],
      },
      { role: "tool", content: "sun", toolCallId: "call_0" },
    ];
    // Instructions are of their own request.
    expect(lastMessages()).toEqual(soFar);
    await openai.responses.create({ model: "fake", previous_response_id: second.id, input: "And now?" });
    expect(lastMessages()).toEqual([
      ...soFar,
      { role: "assistant", content: "Sunny." },
      { role: "user", content: "And now?" },
    ]);
  });

  test("rejects one that is not there, or was not to be stored", async () => {
    const { json: kept } = await served.post(PATH, { input: "Hi", store: false });
    expect(kept.store).toBe(false);
    for (const id of ["resp_never", kept.id]) {
      const { status, json } = await served.post(PATH, { input: "Hi", previous_response_id: id });
      expect([status, json.error.code, json.error.param]).toEqual([
        400,
        "previous_response_not_found",
        "previous_response_id",
      ]);
    }
    expect((await served.get(`${PATH}/${kept.id}`)).status).toBe(404);
  });

  test("rejects a conversation that has become too long", async () => {
    await using small = await startServer({ limits: { messages: 3 } });
    const { json: first } = await small.post(PATH, { input: "Hi" });
    const { json: second } = await small.post(PATH, { input: "Hi", previous_response_id: first.id });
    expect(second.id).toBeDefined();
    const { status, json } = await small.post(PATH, { input: "Hi", previous_response_id: second.id });
    expect([status, json.error.param]).toEqual([400, "input"]);
  });
});

describe("item_reference", () => {
  test("stands for an item of any response that is stored, with its type and without", async () => {
    served.model.script.answer = () => `<think>hm</think>${CALL}`;
    const { json: first } = await served.post(PATH, { input: "Hi", tools });
    const [reasoning, call] = first.output;
    const input = [
      { role: "user", content: "Hi" },
      { type: "item_reference", id: reasoning.id },
      { id: call.id },
      { type: "function_call_output", call_id: "call_0", output: "sun" },
    ];
    const { status, json: second } = await served.post(PATH, { input, tools });
    expect(status).toBe(200);
    expect(lastMessages()).toMatchObject([
      { role: "user" },
      { role: "assistant", reasoning: "hm", toolCalls: [{ id: "call_0" }] },
      { role: "tool" },
    ]);
    // Kept with the second response as well.
    expect((await fetch(`${served.url}${PATH}/${first.id}`, { method: "DELETE" })).status).toBe(200);
    expect((await served.post(PATH, { input })).status).toBe(200);
    expect(second.output).toHaveLength(2);
  });

  test("rejects one that is not there", async () => {
    const { status, json } = await served.post(PATH, {
      input: [
        { role: "user", content: "Hi" },
        { type: "item_reference", id: "rs_never" },
      ],
    });
    expect([status, json.error.code, json.error.param]).toEqual([404, "item_not_found", "input[1]"]);
  });
});

describe("by id", () => {
  test("a response is got as it was answered, and deleted", async () => {
    const first = await openai.responses.create({ model: "fake", input: "Hi", metadata: { topic: "weather" } });
    const again = await openai.responses.retrieve(first.id);
    expect(again).toMatchObject({
      id: first.id,
      output: first.output,
      usage: first.usage,
      metadata: { topic: "weather" },
      status: "completed",
    });
    const deleted = await fetch(`${served.url}${PATH}/${first.id}`, { method: "DELETE" });
    expect(await deleted.json()).toEqual({ id: first.id, object: "response", deleted: true });
    await expect(openai.responses.retrieve(first.id)).rejects.toMatchObject({
      status: 404,
      code: "response_not_found",
    });
    expect((await fetch(`${served.url}${PATH}/${first.id}`, { method: "DELETE" })).status).toBe(404);
  });

  test("its input is listed, page by page, in either order", async () => {
    const input = ["one", "two", "three"].map((content) => ({ role: "user" as const, content }));
    const { id } = await openai.responses.create({ model: "fake", input });
    const { json: all } = await served.get(`${PATH}/${id}/input_items`);
    expect(all).toMatchObject({
      object: "list",
      has_more: false,
      data: [{ content: "three" }, { content: "two" }, { content: "one" }],
    });
    const seen: unknown[] = [];
    for await (const item of openai.responses.inputItems.list(id, { limit: 1, order: "asc" }))
      seen.push("content" in item ? item.content : undefined);
    expect(seen).toEqual(["one", "two", "three"]);
    const { json: page } = await served.get(`${PATH}/${id}/input_items?limit=1&order=asc&after=${all.data[2].id}`);
    expect(page).toMatchObject({
      has_more: true,
      data: [{ content: "two" }],
      first_id: all.data[1].id,
      last_id: all.data[1].id,
    });
    for (const query of ["limit=0", "limit=101", "limit=x", "order=up", "after=nothing"]) {
      expect([query, (await served.get(`${PATH}/${id}/input_items?${query}`)).status]).toEqual([query, 400]);
    }
  });

  test("rejects a stream of one that is stored", async () => {
    const { json } = await served.post(PATH, { input: "Hi" });
    expect((await served.get(`${PATH}/${json.id}?stream=true`)).status).toBe(400);
  });
});

test("what one API key has stored, another does not see", async () => {
  await using shared = await startServer({ apiKeys: ["key-of-alice", "key-of-bobby"] });
  const as = (key: string) => ({ authorization: `Bearer key-of-${key}` });
  const { json: first } = await shared.post(PATH, { input: "secret" }, as("alice"));
  expect((await shared.get(`${PATH}/${first.id}`, as("bobby"))).status).toBe(404);
  expect((await shared.get(`${PATH}/${first.id}/input_items`, as("bobby"))).status).toBe(404);
  expect((await fetch(`${shared.url}${PATH}/${first.id}`, { method: "DELETE", headers: as("bobby") })).status).toBe(
    404,
  );
  expect((await shared.post(PATH, { input: "Hi", previous_response_id: first.id }, as("bobby"))).status).toBe(400);
  expect(
    (await shared.post(PATH, { input: [{ type: "item_reference", id: first.output[0].id }] }, as("bobby"))).status,
  ).toBe(404);
  expect((await shared.get(`${PATH}/${first.id}`)).status).toBe(401);
  // Whichever header it comes in.
  expect((await shared.get(`${PATH}/${first.id}`, { "x-api-key": "key-of-alice" })).status).toBe(200);
});

test("none are stored where the server is told so", async () => {
  await using none = await startServer({ limits: { storedResponses: 0 } });
  const { json } = await none.post(PATH, { input: "Hi" });
  expect((await none.get(`${PATH}/${json.id}`)).status).toBe(404);
});

test("thoughts come back in what a client keeps for the server", async () => {
  served.model.script.answer = () => `<think>hm</think>${CALL}`;
  const { json } = await served.post(PATH, {
    input: "Hi",
    tools,
    store: false,
    include: ["reasoning.encrypted_content"],
  });
  const [reasoning, call] = json.output;
  expect(reasoning.encrypted_content).toMatch(/^[\w+/]+=*$/);
  const kept = { type: "reasoning", id: reasoning.id, summary: [], encrypted_content: reasoning.encrypted_content };
  const result = { type: "function_call_output", call_id: "call_0", output: "sun" };
  expect((await served.post(PATH, { input: [{ role: "user", content: "Hi" }, kept, call, result] })).status).toBe(200);
  expect(lastMessages()?.[1]).toMatchObject({ role: "assistant", reasoning: "hm", toolCalls: [{ id: "call_0" }] });
  // Of another server, it says nothing here.
  expect(
    (
      await served.post(PATH, {
        input: [{ role: "user", content: "Hi" }, { ...kept, encrypted_content: "gAAAAAB" }, call, result],
      })
    ).status,
  ).toBe(200);
  expect(lastMessages()?.[1]).not.toHaveProperty("reasoning");
});
