// The real clients, unchanged, against the server with fakes behind it: what they parse is what they were made for.

import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ServingError } from "../../src/errors.js";
import { startServer, type TestServer, until } from "../../src/server/testing/test-server.js";

const KEY = "a-key-for-tests";
const model = "fake";
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Hi" }];
const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
} as const;
const CALL = `[weather {"city":"Oslo"}]`;

let served: TestServer;
let openai: OpenAI;
let anthropic: Anthropic;
beforeAll(async () => {
  served = await startServer({ apiKeys: [KEY] });
  openai = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: KEY, maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: served.url, apiKey: KEY, maxRetries: 0 });
});
afterAll(() => served[Symbol.asyncDispose]());
beforeEach(() => {
  served.model.script = {};
});

describe("openai", () => {
  test("models", async () => {
    const ids: string[] = [];
    for await (const listed of openai.models.list()) ids.push(listed.id);
    expect(ids).toEqual([model]);
    expect(await openai.models.retrieve(model)).toMatchObject({ id: model, object: "model", created: 1_700_000_000 });
    await expect(openai.models.retrieve("other")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  });

  test("chat, whole and streamed", async () => {
    const answer = await openai.chat.completions.create({ model, messages });
    expect(answer.choices[0]?.message.content).toBe("Hello there");
    expect(answer).toHaveProperty("_request_id", expect.stringMatching(/^req_/));
    let text = "";
    let tokens = 0;
    const stream = await openai.chat.completions.create({
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      tokens += chunk.usage?.completion_tokens ?? 0;
    }
    expect([text, tokens]).toEqual(["Hello there", 11]);
  });

  test("tools, whole and through the streaming helper", async () => {
    served.model.script.answer = () => CALL;
    const tools: OpenAI.ChatCompletionTool[] = [
      { type: "function", function: { name: "weather", parameters: schema, strict: true } },
    ];
    const answer = await openai.chat.completions.create({ model, messages, tools, tool_choice: "required" });
    expect(answer.choices[0]?.message.tool_calls).toEqual([
      { id: "call_0", type: "function", function: { name: "weather", arguments: `{"city":"Oslo"}` } },
    ]);
    const final = await openai.chat.completions.stream({ model, messages, tools }).finalChatCompletion();
    expect(final.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ function: { name: "weather", arguments: `{"city":"Oslo"}` } }] },
    });
  });

  test("a JSON schema, parsed by the client", async () => {
    served.model.script.answer = () => `{"city":"Oslo"}`;
    const response_format: OpenAI.ResponseFormatJSONSchema = {
      type: "json_schema",
      json_schema: { name: "place", schema, strict: true },
    };
    const answer = await openai.chat.completions.parse({ model, messages, response_format });
    expect(answer.choices[0]?.message.parsed).toEqual({ city: "Oslo" });
  });

  test("log-probabilities", async () => {
    const answer = await openai.chat.completions.create({
      model,
      messages,
      logprobs: true,
      top_logprobs: 1,
      max_completion_tokens: 2,
    });
    expect(answer.choices[0]?.logprobs?.content?.map(({ token }) => token)).toEqual(["H", "e"]);
  });

  test("completions", async () => {
    const answer = await openai.completions.create({ model, prompt: ["a", "b"], n: 2 });
    expect(answer.choices).toHaveLength(4);
    let text = "";
    for await (const chunk of await openai.completions.create({ model, prompt: "a", stream: true }))
      text += chunk.choices[0]?.text ?? "";
    expect(text).toBe("Hello there");
  });

  test("embeddings, which this client asks for in base64 unless told", async () => {
    const answer = await openai.embeddings.create({ model, input: "a" });
    expect(answer.data[0]?.embedding).toEqual([2 / 2 ** 20, 0.5, -0.25]);
    const floats = await openai.embeddings.create({ model, input: "a", encoding_format: "float" });
    expect(floats.data[0]?.embedding).toEqual(answer.data[0]?.embedding);
  });

  test("responses, whole and streamed", async () => {
    served.model.script.answer = () => "<think>hm</think>Hello";
    const answer = await openai.responses.create({ model, input: "Hi", instructions: "Be brief" });
    expect(answer).toMatchObject({ status: "completed", output_text: "Hello", usage: { output_tokens: 22 } });
    expect(answer.output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
    const final = await openai.responses.stream({ model, input: "Hi" }).finalResponse();
    expect(final).toMatchObject({ status: "completed", output_text: "Hello" });
    expect(final.output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
  });

  test("responses with tools, there and back", async () => {
    served.model.script.answer = () => CALL;
    const tools: OpenAI.Responses.FunctionTool[] = [
      { type: "function", name: "weather", parameters: schema, strict: true },
    ];
    const first = await openai.responses.create({ model, input: "Hi", tools });
    expect(first.output).toMatchObject([
      { type: "function_call", name: "weather", arguments: `{"city":"Oslo"}`, call_id: "call_0" },
    ]);
    const streamed = await openai.responses.stream({ model, input: "Hi", tools }).finalResponse();
    expect(streamed.output).toMatchObject([{ type: "function_call", name: "weather", arguments: `{"city":"Oslo"}` }]);
    const input: OpenAI.Responses.ResponseInput = [
      { role: "user", content: "Hi" },
      ...(first.output as OpenAI.Responses.ResponseFunctionToolCall[]),
      { type: "function_call_output", call_id: "call_0", output: "sunny" },
    ];
    await openai.responses.create({ model, input, tools });
    expect(served.chat.conversations.at(-1)?.messages).toEqual([
      { role: "user", content: "Hi" },
      { role: "assistant", content: "", toolCalls: [{ id: "call_0", name: "weather", arguments: `{"city":"Oslo"}` }] },
      { role: "tool", content: "sunny", toolCallId: "call_0" },
    ]);
  });

  test("errors are of the client's own classes", async () => {
    const bad = openai.chat.completions.create({ model, messages, temperature: -1 });
    await expect(bad).rejects.toMatchObject({ status: 400, param: "temperature", type: "invalid_request_error" });
    await expect(bad).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    const stranger = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "some-other-key", maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    served.model.script.refuse = () =>
      new ServingError("SERVING_QUEUE_FULL", "[queue] full", { details: { retryAfterMs: 10 } });
    await expect(openai.chat.completions.create({ model, messages, stream: true })).rejects.toBeInstanceOf(
      OpenAI.RateLimitError,
    );
    served.model.script = {
      beforeDelta: async (index) => {
        if (index === 2) throw new Error("broken");
      },
    };
    const stream = await openai.chat.completions.create({ model, messages, stream: true });
    await expect(
      (async () => {
        for await (const _ of stream);
      })(),
    ).rejects.toBeInstanceOf(OpenAI.APIError);
  });

  test("errors of responses name their own fields", async () => {
    const format = { type: "json_schema", name: "place", schema } as const;
    await expect(
      openai.responses.create({ model, input: "Hi", tools: [], tool_choice: "required", text: { format } }),
    ).rejects.toMatchObject({ status: 400, param: "tool_choice" });
    await expect(openai.responses.create({ model, input: "x".repeat(5000) })).rejects.toMatchObject({
      code: "context_length_exceeded",
      param: "input",
    });
    await expect(openai.responses.create({ model, input: "x".repeat(2 ** 20 + 1) })).rejects.toMatchObject({
      param: "input",
    });
  });

  test("a response with tools and a form: a call, or an answer that the client parses", async () => {
    const tools: OpenAI.Responses.FunctionTool[] = [
      { type: "function", name: "weather", parameters: schema, strict: true },
    ];
    const format = { type: "json_schema", name: "place", schema, strict: true } as const;
    served.model.script.answer = () => CALL;
    expect((await openai.responses.create({ model, input: "Hi", tools, text: { format } })).output).toMatchObject([
      { type: "function_call" },
    ]);
    served.grammar.specs.length = 0;
    served.model.script.answer = () => `{"city":"Oslo"}`;
    expect((await openai.responses.parse({ model, input: "Hi", tools, text: { format } })).output_parsed).toEqual({
      city: "Oslo",
    });
    expect(served.grammar.specs).toMatchObject([
      { kind: "forms", forms: [{ prefix: "[weather " }, { prefix: "", schema, suffix: "" }] },
    ]);
  });

  test("null is absent in the items of a response", async () => {
    const input = [{ type: null, role: "user", content: "Hi" }] as unknown as OpenAI.Responses.ResponseInput;
    const format = {
      type: "json_schema",
      name: null,
      schema,
    } as unknown as OpenAI.Responses.ResponseFormatTextJSONSchemaConfig;
    expect(await openai.responses.create({ model, input, text: { format } })).toMatchObject({ status: "completed" });
  });

  test("a client that aborts is cancelled", async () => {
    served.model.script.beforeDelta = (index) => (index < 3 ? Promise.resolve() : new Promise(() => {}));
    const stream = await openai.chat.completions.create({ model, messages, stream: true });
    await until(() => served.model.running === 1);
    stream.controller.abort();
    await until(() => served.model.running === 0);
    const aborting = new AbortController();
    const whole = openai.chat.completions.create({ model, messages }, { signal: aborting.signal });
    await until(() => served.model.running === 1);
    aborting.abort();
    await expect(whole).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await until(() => served.model.running === 0);
  });
});

describe("anthropic", () => {
  const params = {
    model,
    max_tokens: 100,
    messages: [{ role: "user", content: "Hi" }],
  } as const satisfies Anthropic.MessageCreateParams;
  const tools: Anthropic.Tool[] = [
    { name: "weather", description: "of a city", input_schema: { ...schema, required: [...schema.required] } },
  ];

  test("models", async () => {
    const ids: string[] = [];
    for await (const listed of anthropic.models.list()) ids.push(listed.id);
    expect(ids).toEqual([model]);
    expect(await anthropic.models.retrieve(model)).toMatchObject({ type: "model", display_name: model });
  });

  test("a message, whole and streamed", async () => {
    served.model.script.answer = () => "<think>hm</think>Hello";
    const whole = await anthropic.messages.create({ ...params, system: "Be brief" });
    expect(whole).toMatchObject({
      type: "message",
      role: "assistant",
      stop_reason: "end_turn",
      stop_sequence: null,
      content: [
        { type: "thinking", thinking: "hm" },
        { type: "text", text: "Hello" },
      ],
      usage: { input_tokens: 35, cache_read_input_tokens: 2, output_tokens: 22 },
    });
    // Clients that know no citations refuse even none.
    expect(whole.content[1]).toEqual({ type: "text", text: "Hello" });
    const final = await anthropic.messages.stream({ ...params, system: "Be brief" }).finalMessage();
    expect(final).toMatchObject({
      stop_reason: "end_turn",
      content: whole.content,
      usage: { input_tokens: 35, cache_read_input_tokens: 2, output_tokens: 22 },
    });
  });

  test("tools, there and back", async () => {
    served.model.script.answer = () => `Well. ${CALL}`;
    const whole = await anthropic.messages.create({ ...params, tools });
    expect(whole).toMatchObject({
      stop_reason: "tool_use",
      content: [
        { type: "text", text: "Well. " },
        { type: "tool_use", id: "call_0", name: "weather", input: { city: "Oslo" } },
      ],
    });
    const final = await anthropic.messages.stream({ ...params, tools }).finalMessage();
    expect(final.content).toEqual(whole.content);
    const result: Anthropic.MessageParam = {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "call_0", content: "sunny" }],
    };
    await anthropic.messages.create({
      ...params,
      tools,
      messages: [...params.messages, { role: "assistant", content: whole.content }, result],
    });
    expect(served.chat.conversations.at(-1)?.messages).toEqual([
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: "Well. ",
        toolCalls: [{ id: "call_0", name: "weather", arguments: `{"city":"Oslo"}` }],
      },
      { role: "tool", content: "sunny", toolCallId: "call_0" },
    ]);
  });

  test("a forced tool constrains the answer", async () => {
    served.model.script.answer = () => CALL;
    served.grammar.specs.length = 0;
    await anthropic.messages.create({ ...params, tools, tool_choice: { type: "any" } });
    await anthropic.messages.create({ ...params, tools, tool_choice: { type: "tool", name: "weather" } });
    expect(served.grammar.specs.map(({ kind }) => kind)).toEqual(["forms", "forms"]);
  });

  test("a JSON schema, thinking, stop sequences and lengths", async () => {
    served.model.script.answer = () => `{"city":"Oslo"}`;
    await anthropic.messages.create({ ...params, output_config: { format: { type: "json_schema", schema } } });
    expect(served.grammar.specs.at(-1)).toEqual({ kind: "schema", schema });
    await anthropic.messages.create({ ...params, thinking: { type: "enabled", budget_tokens: 1024 } });
    expect(served.chat.conversations.at(-1)?.thinking).toBe(true);
    await anthropic.messages.create(params);
    expect(served.chat.conversations.at(-1)?.thinking).toBe(false);
    const stopped = await anthropic.messages.create({ ...params, stop_sequences: ["Oslo"] });
    expect([stopped.stop_reason, stopped.stop_sequence]).toEqual(["stop_sequence", "Oslo"]);
    const cut = await anthropic.messages.create({ ...params, max_tokens: 3 });
    expect(cut.stop_reason).toBe("max_tokens");
  });

  test("the tool runner, which asks for a stored conversation first, sends the whole one", async () => {
    const answers = [CALL, "It rains."];
    served.model.script.answer = () => answers.shift() ?? "";
    const weather = betaTool({ name: "weather", description: "of a city", inputSchema: schema, run: () => "rain" });
    const final = await anthropic.beta.messages.toolRunner({ ...params, tools: [weather] });
    expect(final.content).toEqual([{ type: "text", text: "It rains." }]);
    expect(served.chat.conversations.at(-1)?.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    const thread = { type: "continue", previous_message_id: "msg_0" } as const;
    await expect(anthropic.beta.messages.create({ ...params, thread })).rejects.toMatchObject({
      status: 400,
      error: { error: { details: { error_code: "thread_unsupported_request" } } },
    });
  });

  test("counts tokens", async () => {
    const { input_tokens } = await anthropic.messages.countTokens({
      model,
      messages: [...params.messages],
      system: "Be brief",
      tools,
    });
    expect(input_tokens).toBe(37);
  });

  test("errors are of the client's own classes", async () => {
    const bad = anthropic.messages.create({ ...params, max_tokens: -1 });
    await expect(bad).rejects.toBeInstanceOf(Anthropic.BadRequestError);
    await expect(bad).rejects.toMatchObject({
      status: 400,
      error: { type: "error", error: { type: "invalid_request_error" } },
    });
    await expect(anthropic.models.retrieve("other")).rejects.toBeInstanceOf(Anthropic.NotFoundError);
    const stranger = new Anthropic({ baseURL: served.url, apiKey: "some-other-key", maxRetries: 0 });
    await expect(stranger.messages.create(params)).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
    const image = { type: "image", source: { type: "url", url: "https://example.com/a.png" } } as const;
    await expect(
      anthropic.messages.create({ ...params, messages: [{ role: "user", content: [image] }] }),
    ).rejects.toThrow(/image.* is not supported/);
    const output_config = { format: { type: "json_schema", schema } } as const;
    await expect(anthropic.messages.create({ ...params, tool_choice: { type: "any" }, output_config })).rejects.toThrow(
      /\[tool_choice\]/,
    );
    await expect(
      anthropic.messages.create({ ...params, messages: [{ role: "user", content: "x".repeat(5000) }] }),
    ).rejects.toThrow(/\[messages\] expected at most/);
    const begun = anthropic.messages.create({
      ...params,
      messages: [...params.messages, { role: "assistant", content: "I" }],
    });
    await expect(begun).rejects.toThrow(/last message/);
    served.model.script.beforeDelta = async (index) => {
      if (index === 2) throw new Error("broken");
    };
    await expect(anthropic.messages.stream(params).finalMessage()).rejects.toBeInstanceOf(Anthropic.APIError);
  });

  test("a client that aborts is cancelled", async () => {
    served.model.script.beforeDelta = (index) => (index < 3 ? Promise.resolve() : new Promise(() => {}));
    const stream = anthropic.messages.stream(params);
    const ended = stream.done().catch(() => {});
    await until(() => served.model.running === 1);
    stream.abort();
    await ended;
    await until(() => served.model.running === 0);
  });
});
