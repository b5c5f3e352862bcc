// /v1/chat/completions over real HTTP, with fakes behind it.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ServingError } from "../../src/errors.js";
import { eventsOf, startServer, type TestServer } from "../../src/server/testing/test-server.js";

const PATH = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hi" }];
const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "of a city",
    parameters: { type: "object", properties: { city: { type: "string" } } },
  },
};

let served: TestServer;
beforeAll(async () => {
  served = await startServer({ logLevel: "debug" });
});
afterAll(() => served[Symbol.asyncDispose]());
beforeEach(() => {
  served.model.script = {};
  served.model.requests.length = 0;
  served.chat.conversations.length = 0;
  served.grammar.specs.length = 0;
  served.log.length = 0;
});

function lastRequest() {
  const request = served.model.requests.at(-1);
  if (request === undefined) throw new Error("nothing was asked of the model");
  return request;
}

test("answers a chat", async () => {
  const { status, json, headers } = await served.post(PATH, { model: "fake", messages });
  expect(status).toBe(200);
  expect(headers.get("x-request-id")).toMatch(/^req_/);
  expect(json).toMatchObject({
    object: "chat.completion",
    model: "fake",
    choices: [
      { index: 0, finish_reason: "stop", logprobs: null, message: { role: "assistant", content: "Hello there" } },
    ],
    usage: {
      prompt_tokens: 20,
      completion_tokens: 11,
      total_tokens: 31,
      prompt_tokens_details: { cached_tokens: 2 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
    timings: { cache_n: 2, prompt_n: 18 },
  });
});

test("streams, with the role first, the reason and the usage last", async () => {
  const { text, headers } = await served.post(PATH, {
    model: "fake",
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(headers.get("content-type")).toContain("text/event-stream");
  const events = eventsOf(text);
  expect(events[0].choices[0].delta).toEqual({ role: "assistant", content: "" });
  const written = events.flatMap(({ choices }) =>
    choices.map(({ delta }: { delta: { content?: string } }) => delta.content ?? ""),
  );
  expect(written.join("")).toBe("Hello there");
  expect(events.at(-2).choices[0].finish_reason).toBe("stop");
  expect(events.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 11 } });
  expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
});

test("sends no usage that was not asked for", async () => {
  const { text } = await served.post(PATH, { messages, stream: true });
  expect(text).not.toContain("usage");
});

test("hands the sampling fields on", async () => {
  await served.post(PATH, {
    messages,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 7,
    min_p: 0.1,
    typical_p: 0.8,
    repetition_penalty: 1.2,
    presence_penalty: -1,
    frequency_penalty: 2,
    seed: 42,
    logit_bias: { "65": -100, "66": 5 },
    stop: "xyz",
    max_completion_tokens: 3,
  });
  const { sampling, stop, maxTokens } = lastRequest();
  expect(sampling).toMatchObject({
    temperature: 0.5,
    topP: 0.9,
    topK: 7,
    minP: 0.1,
    typicalP: 0.8,
    repeatPenalty: 1.2,
    presencePenalty: -1,
    frequencyPenalty: 2,
    seed: 42,
    penaltyTokens: -1,
  });
  expect([...(sampling?.logitBias ?? [])]).toEqual([
    [65, -100],
    [66, 5],
  ]);
  expect(stop).toEqual(["xyz", "<end>"]);
  expect(lastRequest().printedTokens).toEqual(new Set([300]));
  expect(maxTokens).toBe(3);
});

test("takes seeds of 64 bits with a sign", async () => {
  for (const [seed, sampled] of [
    [-1, 2 ** 53 - 1],
    [-(2 ** 63), 0],
    [2 ** 53 - 1, 2 ** 53 - 1],
  ] as const) {
    await served.post(PATH, { messages, seed });
    expect(lastRequest().sampling?.seed).toBe(sampled);
  }
});

test("leaves the model and the sampler their defaults where nothing is asked for", async () => {
  await served.post(PATH, { messages, temperature: null });
  expect(lastRequest().sampling).toEqual({});
});

test("applies a penalty that is asked for to the whole text", async () => {
  for (const penalty of ["repetition_penalty", "presence_penalty", "frequency_penalty"]) {
    await served.post(PATH, { messages, [penalty]: 1 });
    expect(lastRequest().sampling).toMatchObject({ penaltyTokens: -1 });
  }
});

test("gives n choices, each with its own text, whole and streamed", async () => {
  served.model.script.answer = (_, choice) => `choice ${choice}`;
  const { json } = await served.post(PATH, { messages, n: 3 });
  expect(
    json.choices.map(({ index, message }: { index: number; message: { content: string } }) => [index, message.content]),
  ).toEqual([
    [0, "choice 0"],
    [1, "choice 1"],
    [2, "choice 2"],
  ]);
  const events = eventsOf((await served.post(PATH, { messages, n: 3, stream: true })).text);
  const texts = ["", "", ""];
  for (const { choices } of events) for (const { index, delta } of choices) texts[index] += delta.content ?? "";
  expect(texts).toEqual(["choice 0", "choice 1", "choice 2"]);
  expect(events.filter(({ choices }) => choices[0]?.finish_reason === "stop")).toHaveLength(3);
});

test("each of several choices ends when it is at its end, not when all are", async () => {
  served.model.script.answer = (_, choice) => (choice === 0 ? "short <" : "long");
  const events = eventsOf((await served.post(PATH, { messages, n: 2, stream: true })).text).map(
    ({ choices }) => choices[0],
  );
  const ofSecond = events.findIndex(({ index }) => index === 1);
  // What the parser held back too.
  expect(
    events
      .slice(0, ofSecond)
      .map(({ delta }) => delta.content ?? "")
      .join(""),
  ).toBe("short <");
  expect(events[ofSecond - 1]).toMatchObject({ index: 0, finish_reason: "stop" });
  expect(events.filter(({ finish_reason }) => finish_reason !== null)).toHaveLength(2);
});

test("says why it ended: a stop string, the length", async () => {
  served.model.script.answer = () => "one two three";
  const stopped = await served.post(PATH, { messages, stop: ["two", "six"] });
  expect(stopped.json.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "one " } });
  const cut = await served.post(PATH, { messages, max_tokens: 5 });
  expect(cut.json.choices[0]).toMatchObject({ finish_reason: "length", message: { content: "one t" } });
});

test("gives log-probabilities, finite ones, whole and streamed", async () => {
  served.model.script.answer = () => "é";
  const asked = { messages, logprobs: true, top_logprobs: 2 };
  const { json } = await served.post(PATH, asked);
  const { content } = json.choices[0].logprobs;
  expect(content).toHaveLength(2);
  expect(content[0]).toMatchObject({ bytes: [0xc3], logprob: -0.5 });
  expect(content[0].top_logprobs.map(({ logprob }: { logprob: number }) => logprob)).toEqual([-0.5, -9999]);
  const events = eventsOf((await served.post(PATH, { ...asked, stream: true })).text);
  const streamed = events.flatMap(({ choices }) => choices[0].logprobs?.content ?? []);
  expect(streamed).toEqual(content);
});

test("gives none of white space that was written before the text and is no part of it", async () => {
  served.chat.dropsSpace = true;
  served.model.script.answer = () => " \n Hi  you ";
  const { json } = await served.post(PATH, { messages, logprobs: true });
  const { message, logprobs } = json.choices[0];
  expect(message.content).toBe("Hi  you ");
  expect(logprobs.content.map(({ token }: { token: string }) => token).join("")).toBe(message.content);
  const events = eventsOf((await served.post(PATH, { messages, logprobs: true, stream: true })).text);
  expect(events.flatMap(({ choices }) => choices[0].logprobs?.content ?? [])).toEqual(logprobs.content);
  served.chat.dropsSpace = false;
});

test("ends an answer that has too many of them", async () => {
  await using small = await startServer({ limits: { logprobEntries: 12 } });
  const { json } = await small.post(PATH, { messages, logprobs: true, top_logprobs: 1, n: 2 });
  expect(
    json.choices.map(({ logprobs, finish_reason }: { logprobs: { content: unknown[] }; finish_reason: string }) => [
      logprobs.content.length,
      finish_reason,
    ]),
  ).toEqual([
    [3, "length"],
    [3, "length"],
  ]);
});

describe("tools", () => {
  test("a call is an answer of its own", async () => {
    served.model.script.answer = () => `Let me see. [weather {"city":"Oslo"}]`;
    const { json } = await served.post(PATH, { messages, tools: [weather] });
    expect(json.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: "Let me see. ",
        tool_calls: [{ id: "call_0", type: "function", function: { name: "weather", arguments: `{"city":"Oslo"}` } }],
      },
    });
  });

  test("a call alone has no content", async () => {
    served.model.script.answer = () => `[weather {"city":"Oslo"}][weather {"city":"Bergen"}]`;
    const { json } = await served.post(PATH, { messages, tools: [weather] });
    expect(json.choices[0].message.content).toBeNull();
    expect(json.choices[0].message.tool_calls).toHaveLength(2);
  });

  test("calls are streamed", async () => {
    served.model.script.answer = () => `[weather {"city":"Oslo"}]`;
    const events = eventsOf((await served.post(PATH, { messages, tools: [weather], stream: true })).text);
    const calls = events.flatMap(({ choices }) => choices[0].delta.tool_calls ?? []);
    expect(calls[0]).toEqual({
      index: 0,
      id: "call_0",
      type: "function",
      function: { name: "weather", arguments: "" },
    });
    expect(calls.map((call: { function: { arguments: string } }) => call.function.arguments).join("")).toBe(
      `{"city":"Oslo"}`,
    );
    expect(events.at(-1).choices[0].finish_reason).toBe("tool_calls");
  });

  test("a choice that demands a call constrains the answer, and thinks as the request says", async () => {
    served.model.script.answer = () => `[weather {"city":"Oslo"}]`;
    for (const tool_choice of ["required", { type: "function", function: { name: "weather" } }]) {
      const { json } = await served.post(PATH, { messages, tools: [weather], tool_choice, reasoning_effort: "high" });
      expect(json.choices[0].finish_reason).toBe("tool_calls");
      expect(served.grammar.specs.at(-1)).toMatchObject({ kind: "forms", forms: [{ prefix: "[weather " }] });
      expect(lastRequest().constraint).toBeDefined();
      expect(served.chat.conversations.at(-1)).toMatchObject({ constrained: true, thinking: true });
    }
    expect(served.grammar.open).toBe(0);
  });

  test("a call that must be is not cut by the client's stop strings", async () => {
    served.model.script.answer = () => `[weather {"city":"Oslo"}]`;
    const { json } = await served.post(PATH, { messages, tools: [weather], tool_choice: "required", stop: [" ", "{"] });
    expect(lastRequest().stop).toEqual(["<end>"]);
    expect(json.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ function: { arguments: `{"city":"Oslo"}` } }] },
    });
  });

  const allowed = (mode: string, ...names: readonly string[]) => ({
    type: "allowed_tools",
    allowed_tools: { mode, tools: names.map((name) => ({ type: "function", function: { name } })) },
  });

  test("allowed_tools shows the model those alone, to choose from or to call one of", async () => {
    const tools = [weather, { type: "function", function: { name: "other" } }];
    await served.post(PATH, { messages, tools, tool_choice: allowed("auto", "weather") });
    expect(served.chat.conversations.at(-1)).toMatchObject({
      tools: [{ name: "weather" }],
      toolChoice: { kind: "auto" },
    });
    await served.post(PATH, { messages, tools, tool_choice: allowed("required", "other") });
    expect(served.chat.conversations.at(-1)).toMatchObject({
      tools: [{ name: "other" }],
      toolChoice: { kind: "required" },
    });
    await served.post(PATH, { messages, tools, tool_choice: allowed("auto") });
    expect(served.chat.conversations.at(-1)).toMatchObject({ tools: [], toolChoice: { kind: "none" } });
  });

  test("a tool that is no function is skipped, and the log says so", async () => {
    const { status } = await served.post(PATH, {
      messages,
      tools: [{ type: "custom", custom: { name: "x" } }, weather],
    });
    expect(status).toBe(200);
    expect(served.chat.conversations.at(-1)?.tools).toMatchObject([{ name: "weather" }]);
    expect(served.log.join("")).toContain(String.raw`a tool of type \"custom\" was skipped`);
  });

  test.each([
    [{ type: "json_schema", json_schema: { name: "a", schema: { type: "array" } } }, { type: "array" }],
    [{ type: "json_object" }, { type: "object" }],
  ])("beside %j: a call in its form or an answer in its own", async (response_format, schema) => {
    const body = { messages, tools: [weather], response_format };
    served.model.script.answer = () => `[weather {"city":"Oslo"}]`;
    const called = await served.post(PATH, body);
    expect(called.json.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ function: { name: "weather" } }] },
    });
    const call = { prefix: "[weather ", schema: weather.function.parameters, suffix: "]" };
    expect(served.grammar.specs).toEqual([{ kind: "forms", forms: [call, { prefix: "", schema, suffix: "" }] }]);
    served.model.script.answer = () => "{}";
    const { json } = await served.post(PATH, { ...body, stop: ["}"] });
    // The client sees the text, so that its stop strings are looked for.
    expect(json.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "{" } });
    served.grammar.specs.length = 0;
    await served.post(PATH, { ...body, tool_choice: "required" });
    await served.post(PATH, { ...body, tool_choice: "none" });
    expect(served.grammar.specs.map(({ kind }) => kind)).toEqual([
      "forms",
      response_format.type === "json_object" ? "json" : "schema",
    ]);
    expect(served.grammar.specs[0]).toEqual({ kind: "forms", forms: [call] });
    expect(served.grammar.open).toBe(0);
  });

  test("none hides the tools from the model", async () => {
    await served.post(PATH, { messages, tools: [weather], tool_choice: "none" });
    expect(served.chat.conversations.at(-1)?.tools).toEqual([]);
  });

  test("a conversation with calls and results gets to the template", async () => {
    const call = { id: "call_1", type: "function", function: { name: "weather", arguments: "{}" } };
    await served.post(PATH, {
      messages: [
        {
          role: "developer",
          content: [
            { type: "text", text: "Be " },
            { type: "text", text: "brief" },
          ],
        },
        ...messages,
        { role: "assistant", content: null, reasoning_content: "hm", tool_calls: [call] },
        { role: "tool", tool_call_id: "call_1", content: "sunny" },
      ],
    });
    expect(served.chat.conversations.at(-1)?.messages).toEqual([
      { role: "developer", content: "Be brief" },
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: "",
        reasoning: "hm",
        toolCalls: [{ id: "call_1", name: "weather", arguments: "{}" }],
      },
      { role: "tool", content: "sunny", toolCallId: "call_1" },
    ]);
  });

  test.each([
    [
      "a name that is no tool's",
      { tools: [weather], tool_choice: { type: "function", function: { name: "other" } } },
      "tool_choice",
    ],
    ["a demand without tools", { tool_choice: "required" }, "tool_choice"],
    ["an expression for the answer while tools may be called", { tools: [weather], regex: "a+" }, "response_format"],
    [
      "a choice among tools that are not there",
      { tools: [weather], tool_choice: allowed("auto", "other") },
      "tool_choice",
    ],
    ["a demand for one of no tools", { tools: [weather], tool_choice: allowed("required") }, "tool_choice"],
    ["a tool without a name", { tools: [{ type: "function", function: {} }] }, "tools[0].function.name"],
    ["a tool without a type", { tools: [{ function: { name: "x" } }] }, "tools[0].type"],
  ])("rejects %s", async (_, fields, param) => {
    const { status, json } = await served.post(PATH, { messages, ...fields });
    expect([status, json.error.param]).toEqual([400, param]);
  });
});

describe("reasoning", () => {
  test("stands apart from the answer", async () => {
    served.model.script.answer = () => "<think>hm</think>Yes";
    const { json } = await served.post(PATH, { messages });
    expect(json.choices[0].message).toMatchObject({ content: "Yes", reasoning_content: "hm" });
    const events = eventsOf((await served.post(PATH, { messages, stream: true })).text);
    expect(events.map(({ choices }) => choices[0].delta.reasoning_content ?? "").join("")).toBe("hm");
  });

  test("is asked for by effort", async () => {
    await served.post(PATH, { messages, reasoning_effort: "none", chat_template_kwargs: { tone: "kind" } });
    expect(served.chat.conversations.at(-1)).toMatchObject({
      thinking: false,
      templateOptions: { reasoning_effort: "none", tone: "kind" },
    });
    await served.post(PATH, { messages });
    expect(served.chat.conversations.at(-1)?.thinking).toBeUndefined();
  });
});

describe("stop strings where not all of an answer is text", () => {
  beforeEach(() => {
    served.chat.hidesText = true;
  });
  afterEach(() => {
    served.chat.hidesText = false;
  });

  test("do not end thoughts and calls, which the client did not mean", async () => {
    const upToStop = `<think>one two</think>[weather {"city":"two"}]one two`;
    served.model.script.answer = () => `${upToStop} three`;
    for (const stream of [false, true]) {
      const { text, json } = await served.post(PATH, {
        messages,
        tools: [weather],
        stop: ["two"],
        stream,
        stream_options: stream ? { include_usage: true } : null,
      });
      expect(lastRequest().stop).toEqual(["<end>"]);
      const events = stream ? eventsOf(text) : [];
      const usage = stream ? events.at(-1).usage : json.usage;
      const content = stream
        ? events.map(({ choices }) => choices[0]?.delta.content ?? "").join("")
        : json.choices[0].message.content;
      expect([content, usage.completion_tokens]).toEqual(["one ", upToStop.length]);
      if (!stream)
        expect(json.choices[0]).toMatchObject({ finish_reason: "stop", message: { reasoning_content: "one two" } });
    }
    expect(served.model.running).toBe(0);
  });

  test("end their own choice and no other, across deltas", async () => {
    served.model.script.answer = (_, choice) => (choice === 1 ? "aab and more" : "aaa!");
    const { json } = await served.post(PATH, { messages, stop: ["aab"], n: 3 });
    expect(
      json.choices.map(({ message, finish_reason }: { message: { content: string }; finish_reason: string }) => [
        message.content,
        finish_reason,
      ]),
    ).toEqual([
      ["aaa!", "stop"],
      ["", "stop"],
      ["aaa!", "stop"],
    ]);
    expect(json.usage.completion_tokens).toBe(11);
  });

  test("do not reach over a call", async () => {
    served.model.script.answer = () => `a[weather {}]b`;
    const { json } = await served.post(PATH, { messages, tools: [weather], stop: ["ab"] });
    expect(json.choices[0]).toMatchObject({ finish_reason: "tool_calls", message: { content: "ab" } });
  });

  test("are not the server that stops", async () => {
    served.model.script.answer = () => "one two";
    const { json } = await served.post(PATH, { messages, stop: ["one"], logprobs: true });
    expect(json.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "" } });
    expect(json.choices[0].logprobs.content).toHaveLength(3);
  });
});

describe("the form of the answer", () => {
  const schema = { type: "object", properties: { a: { type: "integer" } } };
  test.each([
    [{ response_format: { type: "json_object" } }, { kind: "json" }],
    [
      { response_format: { type: "json_schema", json_schema: { name: "a", schema, strict: true } } },
      { kind: "schema", schema },
    ],
    [{ response_format: { type: "regex", regex: "[a-z]+" } }, { kind: "regex", pattern: "[a-z]+" }],
    [{ response_format: { type: "grammar", grammar: `root ::= "a"` } }, { kind: "grammar", text: `root ::= "a"` }],
    [{ regex: "[0-9]" }, { kind: "regex", pattern: "[0-9]" }],
    [{ grammar: `root ::= "a"` }, { kind: "grammar", text: `root ::= "a"` }],
    // llama.cpp's
    [{ response_format: { type: "json_object", schema } }, { kind: "schema", schema }],
    [{ response_format: { type: "json_schema", schema } }, { kind: "schema", schema }],
    [{ json_schema: schema }, { kind: "schema", schema }],
    // SGLang's
    [{ json_schema: JSON.stringify(schema) }, { kind: "schema", schema }],
    [{ ebnf: `root ::= "a"` }, { kind: "grammar", text: `root ::= "a"` }],
    // Ollama's
    [{ format: schema }, { kind: "schema", schema }],
    [{ format: "json" }, { kind: "json" }],
    // vLLM's, older and newer
    [{ guided_json: schema }, { kind: "schema", schema }],
    [
      { guided_json: JSON.stringify(schema), guided_decoding_backend: "auto" },
      { kind: "schema", schema },
    ],
    [{ guided_regex: "[0-9]" }, { kind: "regex", pattern: "[0-9]" }],
    [{ guided_choice: ["yes", "no (a|b)?"] }, { kind: "regex", pattern: String.raw`(?:yes|no \(a\|b\)\?)` }],
    [{ guided_grammar: `root ::= "a"` }, { kind: "grammar", text: `root ::= "a"` }],
    [{ structured_outputs: { json: schema } }, { kind: "schema", schema }],
    [{ structured_outputs: { json_object: true } }, { kind: "json" }],
    [{ structured_outputs: { regex: "[0-9]" } }, { kind: "regex", pattern: "[0-9]" }],
    [{ structured_outputs: { choice: ["a", "b"] } }, { kind: "regex", pattern: "(?:a|b)" }],
    [{ structured_outputs: { grammar: `root ::= "a"` } }, { kind: "grammar", text: `root ::= "a"` }],
    // For whichever server it may be.
    [
      { response_format: { type: "json_schema", json_schema: { schema } }, guided_json: schema },
      { kind: "schema", schema },
    ],
  ])("%j becomes a constraint", async (fields, spec) => {
    const { status } = await served.post(PATH, { messages, ...fields });
    expect(status).toBe(200);
    expect(served.grammar.specs).toEqual([spec]);
    expect(lastRequest().constraint).toBeDefined();
    expect(served.grammar.open).toBe(0);
  });

  test("text is none", async () => {
    await served.post(PATH, { messages, response_format: { type: "text" } });
    expect(lastRequest().constraint).toBeUndefined();
  });

  test("rejects two at once, and a grammar that is none", async () => {
    expect((await served.post(PATH, { messages, regex: "a", grammar: "b" })).status).toBe(400);
    const two = await served.post(PATH, {
      messages,
      response_format: { type: "json_object" },
      structured_outputs: { choice: ["a"] },
    });
    expect([two.status, two.json.error.param]).toEqual([400, "structured_outputs.choice"]);
    const { status, json } = await served.post(PATH, { messages, regex: "(" });
    expect([status, json.error.code]).toEqual([400, "invalid_grammar"]);
  });
});

describe("refusals", () => {
  test.each([
    ["no messages", {}, "messages"],
    ["an empty list", { messages: [] }, "messages"],
    ["messages that are text", { messages: "Hi" }, "messages"],
    ["a role that is none", { messages: [{ role: "king", content: "" }] }, "messages[0].role"],
    ["content that is a number", { messages: [{ role: "user", content: 5 }] }, "messages[0].content"],
    [
      "an image",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] },
      "messages[0].content[0].type",
    ],
    ["a negative temperature", { messages, temperature: -1 }, "temperature"],
    ["a temperature that is text", { messages, temperature: "hot" }, "temperature"],
    ["a huge n", { messages, n: 1e9 }, "n"],
    ["n of nothing", { messages, n: 0 }, "n"],
    ["a fraction of tokens", { messages, max_tokens: 1.5 }, "max_tokens"],
    ["negative tokens", { messages, max_completion_tokens: -5 }, "max_completion_tokens"],
    ["no tokens at all", { messages, max_tokens: 0 }, "max_tokens"],
    ["a top_p above one", { messages, top_p: 1.1 }, "top_p"],
    ["an empty stop", { messages, stop: "" }, "stop"],
    ["too many stops", { messages, stop: Array.from({ length: 17 }, String) }, "stop"],
    ["a bias that is text", { messages, logit_bias: { "1": "x" } }, "logit_bias"],
    ["a bias of a word", { messages, logit_bias: { word: 1 } }, "logit_bias"],
    ["a bias of a token that is not there", { messages, logit_bias: { "99999": 1 } }, "logit_bias"],
    [
      "too many biases",
      { messages, logit_bias: Object.fromEntries(Array.from({ length: 1025 }, (_, id) => [id, 1])) },
      "logit_bias",
    ],
    ["a fraction of a seed", { messages, seed: 1.5 }, "seed"],
    ["a seed of more than 64 bits", { messages, seed: 1e20 }, "seed"],
    ["top_logprobs alone", { messages, top_logprobs: 1 }, "top_logprobs"],
    ["too many of them", { messages, logprobs: true, top_logprobs: 21 }, "top_logprobs"],
    ["functions", { messages, functions: [] }, "functions"],
    ["audio", { messages, modalities: ["text", "audio"] }, "modalities"],
    ["web search", { messages, web_search_options: {} }, "web_search_options"],
    [
      "a schema's form without a schema",
      { messages, response_format: { type: "json_schema" } },
      "response_format.json_schema",
    ],
    ["a schema that is no JSON", { messages, guided_json: "{" }, "guided_json"],
    ["white space of its own", { messages, guided_whitespace_pattern: " " }, "guided_whitespace_pattern"],
    [
      "white space of its own in structured_outputs",
      { messages, structured_outputs: { json: {}, whitespace_pattern: " " } },
      "structured_outputs.whitespace_pattern",
    ],
    [
      "a structural tag",
      { messages, structured_outputs: { structural_tag: "{}" } },
      "structured_outputs.structural_tag",
    ],
    ["no choices", { messages, guided_choice: [] }, "guided_choice"],
    ["an unknown form", { messages, response_format: { type: "yaml" } }, "response_format.type"],
    ["a model that is a number", { model: 5, messages }, "model"],
  ])("rejects %s by name", async (_, body, param) => {
    const { status, json } = await served.post(PATH, body);
    expect(status).toBe(400);
    expect(json.error).toMatchObject({ type: "invalid_request_error", param });
    expect(json.error.message).toContain(`[${param}]`);
  });

  test("null is absent at any depth", async () => {
    const call = { id: "call_1", type: null, function: { name: "weather", arguments: "{}" } };
    const { status } = await served.post(PATH, {
      messages: [
        ...messages.map((message) => ({ ...message, name: null })),
        { role: "assistant", name: null, content: null, tool_calls: [call] },
      ],
      response_format: { type: "json_schema", json_schema: { name: null, schema: null } },
    });
    expect(status).toBe(200);
    expect(served.chat.conversations.at(-1)?.messages[0]).toEqual({ role: "user", content: "Hi" });
    expect(served.grammar.specs).toEqual([{ kind: "json" }]);
  });

  test("harmless values of the same fields pass", async () => {
    const { status } = await served.post(PATH, {
      messages,
      modalities: ["text"],
      verbosity: "low",
      functions: null,
      best_of: 1,
    });
    expect(status).toBe(200);
  });

  test.each([
    [{ max_tokens: -1 }, 4096],
    [{ max_completion_tokens: -1, max_tokens: 5 }, 4096],
    [{ max_completion_tokens: 5, max_tokens: 7 }, 5],
    [{ max_tokens: 7 }, 7],
  ])("%j is a length", async (fields, most) => {
    expect((await served.post(PATH, { messages, ...fields })).status).toBe(200);
    const { prompt, maxTokens } = lastRequest();
    expect(maxTokens).toBe(Math.min(most, 4096 - prompt.length));
  });

  test("listed fields have no effect, and are not reported", async () => {
    const { status } = await served.post(PATH, {
      messages,
      user: "me",
      metadata: { a: "b" },
      store: true,
      service_tier: "auto",
      parallel_tool_calls: false,
    });
    expect(status).toBe(200);
    expect(served.log.join("")).not.toContain("unknown fields");
  });

  test("unknown fields are ignored and logged, at any depth", async () => {
    const { status } = await served.post(PATH, {
      messages: [{ role: "user", content: "Hi", mood: "good" }],
      typo_p: 1,
    });
    expect(status).toBe(200);
    expect(served.log.join("")).toContain(`"fields":["messages[0].mood","typo_p"]`);
  });

  test("unknown fields are refused by a strict server", async () => {
    await using strict = await startServer({ strict: true });
    const { status, json } = await strict.post(PATH, { messages, typo_p: 1 });
    expect([status, json.error.param, json.error.code]).toEqual([400, "typo_p", "unknown_parameter"]);
    expect((await strict.post(PATH, { messages, user: "me" })).status).toBe(200);
  });

  test("a prompt that is too long says so", async () => {
    const { status, json } = await served.post(PATH, { messages: [{ role: "user", content: "x".repeat(5000) }] });
    expect([status, json.error.code, json.error.param]).toEqual([400, "context_length_exceeded", "messages"]);
  });

  test("an answer is never asked to be longer than there is room", async () => {
    await served.post(PATH, { messages, max_tokens: 1_000_000 });
    expect(lastRequest().maxTokens).toBe(4096 - lastRequest().prompt.length);
  });

  test("errors of the engine, the template and the pool have their status", async () => {
    served.model.script.refuse = () =>
      new ServingError("SERVING_QUEUE_FULL", "[queue] full", { details: { retryAfterMs: 2500 } });
    for (const stream of [false, true]) {
      const full = await served.post(PATH, { messages, stream });
      expect([full.status, full.headers.get("retry-after"), full.json.error.type]).toEqual([
        429,
        "3",
        "rate_limit_error",
      ]);
    }
    served.model.script.refuse = () => new Error("/secret/path is broken");
    const broken = await served.post(PATH, { messages });
    expect([broken.status, broken.json.error.type]).toEqual([500, "server_error"]);
    expect(broken.text).not.toContain("secret");
    expect(served.log.join("")).toContain("secret");
    await using strict = await startServer({ strict: true });
    const unknown = await strict.post(PATH, { model: "gpt-9", messages });
    expect([unknown.status, unknown.json.error.code]).toEqual([404, "model_not_found"]);
    const endless = await served.post(PATH, { messages: [{ role: "user", content: "endless" }] });
    expect([endless.status, endless.json.error.code]).toEqual([400, "limit_exceeded"]);
  });

  test("a failure in the middle of a stream is an event", async () => {
    served.model.script.beforeDelta = async (index) => {
      if (index === 3) throw new ServingError("SERVING_TOO_LARGE", "[engine] no room");
    };
    const { status, text } = await served.post(PATH, { messages, stream: true });
    expect(status).toBe(200);
    expect(eventsOf(text).at(-1)).toMatchObject({
      error: { code: "context_length_exceeded", message: "[engine] no room" },
    });
    expect(text).not.toContain("[DONE]");
    expect(served.model.running).toBe(0);
  });

  test("two models need a name", async () => {
    const { FakeModel } = await import("../../src/server/testing/fake-model.js");
    await using two = await startServer({}, [new FakeModel("other")]);
    const { status, json } = await two.post(PATH, { messages });
    expect([status, json.error.param]).toEqual([400, "model"]);
    expect((await two.post(PATH, { messages, model: "other" })).json.model).toBe("other");
  });
});

test("the log has no prompt, unless asked", async () => {
  await served.post(PATH, { messages: [{ role: "user", content: "a secret" }] });
  expect(served.log.join("")).not.toContain("a secret");
  expect(served.log.join("")).toContain(`"route":"${PATH}","status":200`);
  await using telling = await startServer({ logPrompts: true });
  await telling.post(PATH, { messages: [{ role: "user", content: "no secret" }] });
  expect(telling.log.join("")).toContain("no secret");
});
