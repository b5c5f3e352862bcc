// Ollama's API, by its own client and by plain requests.

import { Ollama } from "ollama";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakeModel } from "../../src/server/testing/fake-model.js";
import { PlainClient } from "../../src/server/testing/plain-client.js";
import { startServer, type TestServer, until } from "../../src/server/testing/test-server.js";
import { SMALL_MODEL } from "../cli/command-line.js";

let served: TestServer;
let ollama: Ollama;
beforeEach(async () => {
  served = await startServer();
  served.pool.paths.set("fake", SMALL_MODEL);
  ollama = new Ollama({ host: served.url });
});
afterEach(() => served[Symbol.asyncDispose]());

const user = (content: string) => [{ role: "user", content }];
const lastChat = () => served.chat.conversations.at(-1);
const lastRequest = () => served.model.requests.at(-1);
const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather in a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const CALL = `[weather {"city":"Oslo"}]`;
const linesOf = (text: string): object[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as object);

async function collect<Chunk>(stream: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

describe("finding a server and its models", () => {
  test("its root is what clients look for, and not for browsers", async () => {
    await using locked = await startServer({ apiKeys: ["key-of-alice"] });
    const { status, text, headers } = await locked.get("/");
    expect([status, text, headers.get("content-type")]).toEqual([
      200,
      "Ollama is running",
      "text/plain; charset=utf-8",
    ]);
    const head = await fetch(locked.url, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const page = await locked.get("/", { accept: "text/html,*/*" });
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect((await locked.get("/api/tags")).status).toBe(401);
  });

  test("a version in numbers, that has what clients ask for", async () => {
    const { json } = await served.get("/api/version");
    const [major, minor] = /^(\d+)\.(\d+)\.\d+$/.exec(json.version)?.slice(1).map(Number) ?? [];
    // Codex asks for 0.13.4 or newer, because of /v1/responses.
    expect((major ?? 0) * 1000 + (minor ?? 0)).toBeGreaterThanOrEqual(14);
  });

  test("lists models with what their files say", async () => {
    const { models } = await ollama.list();
    expect(models).toEqual([
      {
        name: "fake:latest",
        model: "fake:latest",
        modified_at: "2023-11-14T22:13:20.000Z",
        size: expect.any(Number),
        digest: expect.stringMatching(/^[0-9a-f]{64}$/),
        details: {
          parent_model: "",
          format: "gguf",
          family: "qwen2",
          families: ["qwen2"],
          parameter_size: expect.stringMatching(/^\d\.\dM$/),
          quantization_level: "Q4_K_M",
        },
      },
    ]);
    expect(models[0]?.size).toBeGreaterThan(1e6);
    expect(JSON.stringify(models)).not.toContain("/");
  });

  test("a file that cannot be read is listed without details, and show says why", async () => {
    served.pool.paths.set("fake", "/nowhere/secret.gguf");
    const { models } = await ollama.list();
    expect(models).toMatchObject([{ name: "fake:latest", size: 0, details: { family: "", parameter_size: "" } }]);
    const { status, text } = await served.post("/api/show", { model: "fake" });
    expect([status, text]).toEqual([503, expect.stringContaining("FILE_NOT_FOUND")]);
    expect(text).not.toContain("nowhere");
  });

  test("shows architecture, context length and capabilities", async () => {
    const shown = await ollama.show({ model: "fake" });
    expect(shown.model_info).toMatchObject({
      "general.architecture": "qwen2",
      "general.parameter_count": expect.any(Number),
      // That of the server, not of the file.
      "qwen2.context_length": 4096,
      "tokenizer.ggml.tokens": null,
    });
    expect(shown).toMatchObject({ capabilities: ["completion"], details: { quantization_level: "Q4_K_M" } });
    // An older name of the field.
    expect((await served.post("/api/show", { name: "fake:latest" })).json.details).toEqual(shown.details);
  });

  test("lists the models that are loaded", async () => {
    served.pool.states.set("fake", "unloaded");
    expect((await ollama.ps()).models).toEqual([]);
    served.pool.states.set("fake", "loaded");
    const { models } = await ollama.ps();
    expect(models).toMatchObject([{ model: "fake:latest", context_length: 4096 }]);
    expect(new Date(models[0]?.expires_at ?? 0).getFullYear()).toBe(9999);
    const unloadAtMs = Date.UTC(2030, 0, 1);
    for (const [backend, isOnGpu] of [
      ["cpu", false],
      ["hip", true],
      ["cuda", true],
    ] as const) {
      served.pool.loaded = { backend, unloadAtMs };
      const [{ size, size_vram: onGpu, expires_at: expires }] = (await ollama.ps()).models;
      expect([onGpu, expires]).toEqual([isOnGpu ? size : 0, new Date(unloadAtMs).toISOString()]);
    }
  });

  test("names with the tag latest and without mean the same, in every API", async () => {
    await using two = await startServer({}, [new FakeModel("org/tagged:latest"), new FakeModel("sized:8b")]);
    const client = new Ollama({ host: two.url });
    const names = (await client.list()).models.map(({ name }) => name);
    expect(names).toEqual(["fake:latest", "org/tagged:latest", "sized:8b"]);
    for (const model of ["fake", "fake:latest", "org/tagged", "org/tagged:latest", "sized:8b"])
      expect((await client.chat({ model, messages: user("Hi") })).model).toBe(model);
    const { json } = await two.post("/v1/chat/completions", { model: "fake:latest", messages: user("Hi") });
    expect(json.model).toBe("fake");
    for (const model of ["sized", "sized:latest", "other"])
      await expect(client.chat({ model, messages: user("Hi") })).rejects.toMatchObject({
        status_code: 404,
        error: expect.stringMatching(/^model not found/),
      });
    expect((await two.post("/api/show", { model: "other" })).json.error).toMatch(/^model not found/);
  });

  test("a single model that is not strict answers to any name, and says which it is", async () => {
    expect(await ollama.chat({ model: "llama3", messages: user("Hi") })).toMatchObject({ model: "fake:latest" });
  });
});

describe("a chat", () => {
  test("whole, with counts and durations in nanoseconds", async () => {
    served.model.script.answer = () => "<think>hm</think>Hello";
    const answer = await ollama.chat({ model: "fake", messages: user("Hi") });
    expect(answer).toMatchObject({
      model: "fake",
      message: { role: "assistant", content: "Hello", thinking: "hm" },
      done: true,
      done_reason: "stop",
      prompt_eval_count: lastRequest()?.prompt.length,
      prompt_eval_duration: 2_000_000,
      eval_count: 22,
      eval_duration: (22 / 4) * 1e9,
    });
    expect(Number.isInteger(answer.total_duration) && answer.total_duration > answer.load_duration).toBe(true);
    expect(answer.total_duration).toBeLessThan(60e9);
    expect(Math.abs(Date.parse(String(answer.created_at)) - Date.now())).toBeLessThan(60_000);
  });

  test("streamed, which is the default of the API", async () => {
    served.model.script.answer = () => "<think>hm</think>Hello";
    const chunks = await collect(await ollama.chat({ model: "fake", messages: user("Hi"), stream: true }));
    expect(chunks.map(({ message }) => message.thinking ?? "").join("")).toBe("hm");
    expect(chunks.map(({ message }) => message.content).join("")).toBe("Hello");
    expect(chunks.map(({ done }) => done)).toEqual(chunks.map((_, index) => index === chunks.length - 1));
    expect(chunks.at(-1)).toMatchObject({ message: { content: "" }, done_reason: "stop", eval_count: 22 });
    const { text, headers } = await served.post("/api/chat", { model: "fake", messages: user("Hi") });
    expect(headers.get("content-type")).toBe("application/x-ndjson");
    expect(linesOf(text)).toHaveLength(chunks.length);
  });

  test("calls of tools come whole, and go back with their results", async () => {
    served.model.script.answer = () => `Well. ${CALL}`;
    const ask = { model: "fake", messages: user("Weather?"), tools: [weather] };
    const chunks = await collect(await ollama.chat({ ...ask, stream: true }));
    const calls = chunks.flatMap(({ message }) => message.tool_calls ?? []);
    expect(calls).toEqual([{ id: "call_0", function: { index: 0, name: "weather", arguments: { city: "Oslo" } } }]);
    expect(chunks.at(-1)).toMatchObject({ done: true, done_reason: "stop" });
    const { message } = await ollama.chat(ask);
    expect(message).toMatchObject({ content: "Well. ", tool_calls: calls });
    expect(lastChat()?.tools).toEqual([
      { name: "weather", description: "The weather in a city", parameters: weather.function.parameters },
    ]);
    served.model.script.answer = () => "It rains.";
    await ollama.chat({ ...ask, messages: [...ask.messages, message, { role: "tool", content: "rain" }] });
    expect(lastChat()?.messages.slice(1)).toEqual([
      {
        role: "assistant",
        content: "Well. ",
        toolCalls: [{ id: "call_0", name: "weather", arguments: `{"city":"Oslo"}` }],
      },
      { role: "tool", content: "rain", name: "weather", toolCallId: "call_0" },
    ]);
  });

  test("results without ids belong to the first call of their tool that has none", async () => {
    const call = (name: string) => ({ function: { name, arguments: {} } });
    await ollama.chat({
      model: "fake",
      messages: [
        ...user("Hi"),
        { role: "assistant", content: "", thinking: "hm", tool_calls: [call("one"), call("two"), call("one")] },
        { role: "tool", content: "b", tool_name: "two" },
        { role: "tool", content: "a", tool_name: "one" },
        { role: "tool", content: "c" },
        { role: "tool", content: "of no call" },
      ],
    });
    const [, assistant, ...results] = lastChat()?.messages ?? [];
    expect(assistant).toMatchObject({
      reasoning: "hm",
      toolCalls: [{ id: "call_0" }, { id: "call_1" }, { id: "call_2" }],
    });
    expect(results.map(({ name, toolCallId }) => [name, toolCallId])).toEqual([
      ["two", "call_1"],
      ["one", "call_0"],
      ["one", "call_2"],
      [undefined, "call_3"],
    ]);
  });

  test("options are the sampler's and the completion's", async () => {
    await ollama.chat({
      model: "fake",
      messages: user("Hi"),
      options: {
        temperature: 0.1,
        top_k: 3,
        top_p: 0.5,
        min_p: 0.2,
        typical_p: 0.9,
        seed: 7,
        repeat_penalty: 1.2,
        repeat_last_n: 33,
        presence_penalty: 0.3,
        frequency_penalty: 0.4,
        mirostat: 2,
        mirostat_tau: 4,
        mirostat_eta: 0.2,
        num_predict: 5,
        stop: ["x"],
        num_ctx: 8192,
        num_gpu: 99,
      },
    });
    expect(lastRequest()).toMatchObject({ maxTokens: 5, stop: expect.arrayContaining(["x"]) });
    expect(lastRequest()?.sampling).toEqual({
      temperature: 0.1,
      topK: 3,
      topP: 0.5,
      minP: 0.2,
      typicalP: 0.9,
      seed: 7,
      repeatPenalty: 1.2,
      penaltyTokens: 33,
      presencePenalty: 0.3,
      frequencyPenalty: 0.4,
      mirostat: 2,
      mirostatTau: 4,
      mirostatEta: 0.2,
    });
    expect(served.log.join("")).not.toContain("unknown fields");
    for (const num_predict of [-1, -2, 0])
      await ollama.chat({ model: "fake", messages: user("Hi"), options: { num_predict } });
    expect(lastRequest()?.maxTokens).toBeGreaterThan(1000);
    await served.post("/api/chat", {
      model: "fake",
      messages: user("Hi"),
      options: { temperature: null, top_k: null },
    });
    expect(lastRequest()?.sampling).toEqual({ penaltyTokens: 64 });
  });

  test("a format is JSON or a schema, and none if it is empty", async () => {
    const schema = { type: "object", properties: { city: { type: "string" } } };
    for (const format of ["json", schema, ""]) await ollama.chat({ model: "fake", messages: user("Hi"), format });
    expect(served.grammar.specs).toEqual([{ kind: "json" }, { kind: "schema", schema }]);
  });

  test("think is what the template gets", async () => {
    for (const [think, thinking, effort] of [
      [undefined, undefined, undefined],
      [true, true, undefined],
      [false, false, undefined],
      ["low", true, "low"],
    ] as const) {
      await ollama.chat({ model: "fake", messages: user("Hi"), ...(think === undefined ? {} : { think }) });
      expect(lastChat()).toMatchObject({
        thinking,
        templateOptions: effort === undefined ? {} : { reasoning_effort: effort },
      });
    }
  });

  test("log-probabilities are those of the text", async () => {
    served.model.script.answer = () => "ab";
    const answer = await ollama.chat({ model: "fake", messages: user("Hi"), logprobs: true, top_logprobs: 1 });
    expect(answer.logprobs).toMatchObject([
      { token: "a", logprob: -0.5, top_logprobs: [{ token: "a" }] },
      { token: "b", logprob: -0.5 },
    ]);
  });

  test("without messages it loads the model, and does not unload one", async () => {
    expect(await ollama.chat({ model: "fake", messages: [] })).toMatchObject({
      message: { role: "assistant", content: "" },
      done: true,
      done_reason: "load",
    });
    expect(served.model.requests).toHaveLength(0);
    for (const keep_alive of [0, "0", "0s"])
      await expect(ollama.chat({ model: "fake", keep_alive })).rejects.toMatchObject({ status_code: 501 });
    await ollama.chat({ model: "fake", messages: user("Hi"), keep_alive: 0 });
    expect(served.model.requests).toHaveLength(1);
  });

  test.each(["iterator", "client"])("is cancelled when its %s aborts it", async (who) => {
    served.model.script.answer = () => "x".repeat(1000);
    served.model.script.beforeDelta = (index) => (index < 2 ? Promise.resolve() : new Promise(() => {}));
    const stream = await ollama.chat({ model: "fake", messages: user("Hi"), stream: true });
    const reading = collect(stream);
    await until(() => served.model.running === 1);
    if (who === "iterator") stream.abort();
    else ollama.abort();
    await expect(reading).rejects.toMatchObject({ name: "AbortError" });
    await until(() => served.model.running === 0);
    expect(served.model.cancelled).toBe(1);
  });
});

describe("a generation", () => {
  test("is a chat of one message if the model has a template", async () => {
    served.model.chatTemplates = { default: "{{ messages }}", toolUse: undefined };
    served.model.script.answer = () => "<think>hm</think>Hello";
    const ask = { model: "fake", prompt: "Hi", system: "Be brief" };
    expect(await ollama.generate(ask)).toMatchObject({
      model: "fake",
      response: "Hello",
      thinking: "hm",
      done: true,
      done_reason: "stop",
      eval_count: 22,
    });
    expect(lastChat()?.messages).toEqual([
      { role: "system", content: "Be brief" },
      { role: "user", content: "Hi" },
    ]);
    const chunks = await collect(await ollama.generate({ ...ask, stream: true }));
    expect(chunks.map(({ response }) => response).join("")).toBe("Hello");
    expect(chunks.at(-1)).toMatchObject({ response: "", done: true, prompt_eval_count: lastRequest()?.prompt.length });
  });

  test("is raw if it asks for that, or if the model has no template", async () => {
    served.model.script.answer = () => "<think> there";
    const ask = { model: "fake", prompt: "Once", options: { stop: ["z"], num_predict: 8 }, format: "json" };
    for (const raw of [true, false]) {
      served.model.chatTemplates = { default: raw ? "{{ messages }}" : undefined, toolUse: undefined };
      expect(await ollama.generate({ ...ask, raw })).toMatchObject({
        response: "<think> ",
        done_reason: "length",
        eval_count: 8,
      });
      const chunks = await collect(await ollama.generate({ ...ask, raw, stream: true }));
      expect(chunks.map(({ response }) => response).join("")).toBe("<think> ");
      expect(chunks.at(-1)).toMatchObject({ done: true, done_reason: "length", eval_count: 8 });
    }
    expect(served.chat.conversations).toHaveLength(0);
    expect(Buffer.from(lastRequest()?.prompt.slice(1) ?? []).toString()).toBe("Once");
    expect([served.grammar.specs.length, served.grammar.open]).toEqual([4, 0]);
  });

  test("without a prompt it loads the model", async () => {
    expect(await ollama.generate({ model: "fake", prompt: "" })).toMatchObject({ response: "", done_reason: "load" });
    expect((await served.post("/api/generate", { model: "fake" })).json.done_reason).toBe("load");
  });

  test.each(["suffix", "template", "images", "context"])("rejects %s", async (field) => {
    const ask = { model: "fake", prompt: "Hi" };
    const given = field === "images" || field === "context" ? [1] : "x";
    const { status, json } = await served.post("/api/generate", { ...ask, [field]: given });
    expect([status, json.error]).toEqual([400, expect.stringContaining(`[${field}]`)]);
    const nothing = Array.isArray(given) ? [] : "";
    expect((await served.post("/api/generate", { ...ask, [field]: nothing })).status).toBe(200);
  });
});

describe("embeddings", () => {
  test("one vector for each text", async () => {
    const one = await ollama.embed({ model: "fake", input: "abc" });
    expect(one).toMatchObject({ model: "fake", prompt_eval_count: 4, embeddings: [[4 / 2 ** 20, 0.5, -0.25]] });
    expect((await ollama.embed({ model: "fake", input: ["a", "ab"] })).embeddings.map(([first]) => first)).toEqual([
      2 / 2 ** 20,
      3 / 2 ** 20,
    ]);
    expect((await ollama.embeddings({ model: "fake", prompt: "abc" })).embedding).toEqual(one.embeddings[0]);
    for (const input of ["", []]) expect((await ollama.embed({ model: "fake", input })).embeddings).toEqual([]);
  });

  test("long texts are cut to the context length, unless that is refused", async () => {
    const long = "x".repeat(100_000);
    expect(await ollama.embed({ model: "fake", input: ["ab", long] })).toMatchObject({ prompt_eval_count: 3 + 4096 });
    await expect(ollama.embed({ model: "fake", input: long, truncate: false })).rejects.toMatchObject({
      status_code: 400,
    });
    await expect(ollama.embed({ model: "fake", input: "x".repeat(2 ** 20 + 1) })).rejects.toMatchObject({
      status_code: 400,
    });
    await expect(ollama.embed({ model: "fake", input: "a", dimensions: 2 })).rejects.toMatchObject({
      status_code: 400,
    });
  });
});

describe("errors", () => {
  test("are text in Ollama's form, with their status", async () => {
    const ask = { model: "fake", messages: user("Hi") };
    for (const [path, body, status] of [
      ["/api/chat", { messages: user("Hi") }, 400],
      ["/api/chat", { ...ask, messages: [{ role: "robot" }] }, 400],
      ["/api/chat", { ...ask, messages: [{ role: "user", content: "Hi", images: ["AAAA"] }] }, 400],
      ["/api/chat", { ...ask, options: { temperature: "hot" } }, 400],
      ["/api/chat", { ...ask, options: { mirostat: 1 } }, 400],
      ["/api/chat", { ...ask, format: "xml" }, 400],
      ["/api/chat", { ...ask, think: "a lot" }, 400],
      ["/api/chat", { ...ask, top_logprobs: 2 }, 400],
      ["/api/chat", { ...ask, messages: user("x".repeat(50_000)) }, 400],
      ["/api/chat", `{"model":`, 400],
      ["/api/nothing", {}, 404],
    ] as const) {
      const answer = await served.post(path, body);
      expect([path, answer.status, answer.json]).toEqual([path, status, { error: expect.any(String) }]);
    }
    served.model.script.refuse = () => new Error("secret");
    const { status, json } = await served.post("/api/chat", ask);
    expect([status, json.error]).toEqual([500, expect.not.stringContaining("secret")]);
  });

  test("end a stream that has begun", async () => {
    served.model.script.answer = () => "Hello";
    served.model.script.beforeDelta = (index) => (index < 2 ? Promise.resolve() : Promise.reject(new Error("secret")));
    const stream = await ollama.chat({ model: "fake", messages: user("Hi"), stream: true });
    await expect(collect(stream)).rejects.toThrow("internal error");
  });

  test("say that models are not made or deleted, before a body is read", async () => {
    const refused = { status_code: 501, error: expect.stringContaining("is not supported") };
    await expect(ollama.push({ model: "llama3" })).rejects.toMatchObject(refused);
    await expect(ollama.create({ model: "mine", from: "llama3" })).rejects.toMatchObject(refused);
    await expect(ollama.copy({ source: "a", destination: "b" })).rejects.toMatchObject(refused);
    await expect(ollama.delete({ model: "llama3" })).rejects.toMatchObject(refused);
    const path = `/api/blobs/sha256:${"0".repeat(64)}`;
    const { status, json } = await served.post(path, new Uint8Array(1000), {
      "content-type": "application/octet-stream",
    });
    expect([status, json]).toEqual([501, { error: expect.stringContaining("is not supported") }]);
  });
});

test("a model that is served can be pulled, and no other", async () => {
  await using two = await startServer({}, [new FakeModel("other:8b")]);
  const client = new Ollama({ host: two.url });
  expect(await client.pull({ model: "fake" })).toEqual({ status: "success" });
  expect(await collect(await client.pull({ model: "other:8b", stream: true }))).toEqual([{ status: "success" }]);
  // Codex reads whole lines.
  expect((await two.post("/api/pull", { model: "fake" })).text).toBe('{"status":"success"}\n');
  await expect(client.pull({ model: "llama3" })).rejects.toMatchObject({
    status_code: 501,
    error: expect.stringContaining("downloading a model is not supported"),
  });
  // One model that is not strict answers to any name.
  expect(await ollama.pull({ model: "gpt-oss:20b" })).toEqual({ status: "success" });
});

test("the endpoints are described", async () => {
  const { json } = await served.get("/openapi.json");
  expect(json.paths["/api/chat"].post.responses["200"].content).toHaveProperty("application/x-ndjson");
  expect(json.paths["/api/push"].post.responses).toHaveProperty("501");
  expect(json.paths["/api/blobs/{digest}"].post.parameters).toMatchObject([{ name: "digest", in: "path" }]);
  const { properties } = json.paths["/api/chat"].post.requestBody.content["application/json"].schema;
  expect(Object.keys(properties)).toEqual(
    expect.arrayContaining(["model", "messages", "options", "think", "keep_alive"]),
  );
});

describe("a second port of localhost", () => {
  test("has the same endpoints and limits, and is closed with the server", async () => {
    await using small = await startServer({ limits: { connections: 16 } });
    const url = await small.server.listenLocally(0);
    expect(url).not.toBe(small.url);
    const client = new Ollama({ host: url });
    const chunks = await collect(await client.chat({ model: "fake", messages: user("Hi"), stream: true }));
    expect(chunks.at(-1)).toMatchObject({ done: true });
    const clients = await Promise.all(Array.from({ length: 40 }, () => PlainClient.connect(url)));
    // Idle connections are closed for new ones, on either port.
    await until(() => clients.filter(({ isEnded }) => isEnded).length >= 20);
    expect((await fetch(`${small.url}/health`)).status).toBe(200);
    await small.server.stop(0);
    await expect(fetch(`${url}/api/version`)).rejects.toThrow("fetch failed");
    await until(() => clients.every(({ isEnded }) => isEnded));
    for (const plain of clients) plain[Symbol.dispose]();
  });

  test("is addressed by localhost's names, whatever other names are allowed", async () => {
    await using named = await startServer({ allowedHosts: ["models.example"], ollamaPort: 0 });
    const url = await named.server.listenLocally(0);
    expect((await fetch(`${url}/api/version`)).status).toBe(200);
    await using other = await startServer({ allowedHosts: ["models.example"] });
    expect((await other.get("/api/version")).status).toBe(403);
  });
});
