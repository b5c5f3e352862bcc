// What every route has around it: models, health, numbers, keys, pages, limits, and requests that are not requests.

import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { GgufError } from "../../src/errors.js";
import { FakeModel } from "../../src/server/testing/fake-model.js";
import { halfPostText, PlainClient } from "../../src/server/testing/plain-client.js";
import { eventsOf, startServer, type TestServer, until } from "../../src/server/testing/test-server.js";

const messages = [{ role: "user", content: "Hi" }];
const CHAT = "/v1/chat/completions";

/** Bytes over a plain socket; all that comes back until it is closed. */
async function speak({ url }: TestServer, bytes: string): Promise<string> {
  using client = await PlainClient.connect(url);
  return await client.send(bytes).read().ended;
}

test("lists models without their files", async () => {
  await using served = await startServer();
  const { json, text } = await served.get("/v1/models");
  expect(json).toEqual({
    object: "list",
    data: [
      {
        id: "fake",
        object: "model",
        created: 1_700_000_000,
        owned_by: "rocmforge",
        context_length: 4096,
        state: "loaded",
      },
    ],
  });
  expect(text).not.toContain("secret");
  expect((await served.get("/v1/models/fake")).json.id).toBe("fake");
  const unknown = await served.get("/v1/models/%2e%2e%2fetc");
  expect([unknown.status, unknown.json.error.code]).toEqual([404, "model_not_found"]);
});

test("tells its health and its numbers", async () => {
  await using served = await startServer();
  expect((await served.get("/health")).json).toEqual({ status: "ok" });
  await served.post(CHAT, { messages });
  await served.post(CHAT, { messages: 5 });
  await served.get("/nothing");
  const { text, headers } = await served.get("/metrics");
  expect(headers.get("content-type")).toContain("text/plain");
  for (const line of [
    `rocmforge_http_requests_total{route="/v1/chat/completions",status="200"} 1`,
    `rocmforge_http_requests_total{route="/v1/chat/completions",status="400"} 1`,
    `rocmforge_http_requests_total{route="other",status="404"} 1`,
    `rocmforge_prompt_tokens_total{model="fake"} 20`,
    `rocmforge_cached_tokens_total{model="fake"} 2`,
    `rocmforge_generated_tokens_total{model="fake"} 11`,
    `rocmforge_time_to_first_token_seconds_count{model="fake"} 1`,
    `rocmforge_inter_token_seconds_count{model="fake"} 10`,
    `rocmforge_requests_running{model="fake"} 0`,
    `rocmforge_steps_seconds{model="fake"} 0.5`,
    `rocmforge_between_steps_seconds{model="fake"} 0.01`,
    `rocmforge_http_requests_in_flight 0`,
    `rocmforge_models_loaded 1`,
  ]) {
    expect(text).toContain(line);
  }
});

test("describes itself by the schemas it judges with", async () => {
  await using served = await startServer({ limits: { choices: 3 } });
  const { json } = await served.get("/openapi.json");
  expect(json.openapi).toBe("3.1.0");
  expect(Object.keys(json.paths).sort()).toEqual([
    "/",
    "/api/blobs/{digest}",
    "/api/chat",
    "/api/copy",
    "/api/create",
    "/api/delete",
    "/api/embed",
    "/api/embeddings",
    "/api/generate",
    "/api/ps",
    "/api/pull",
    "/api/push",
    "/api/show",
    "/api/tags",
    "/api/version",
    "/detokenize",
    "/engine",
    "/health",
    "/metrics",
    "/openapi.json",
    "/page/{id}",
    "/residency",
    "/tokenize",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/models",
    "/v1/models/{id}",
    "/v1/responses",
    "/v1/responses/{id}",
    "/v1/responses/{id}/input_items",
  ]);
  const { schema } = json.paths[CHAT].post.requestBody.content["application/json"];
  expect(schema.required).toEqual(["messages"]);
  expect(schema.properties.n).toMatchObject({ type: "integer", minimum: 1, maximum: 3 });
  expect(schema.properties.messages.items.oneOf ?? schema.properties.messages.items.anyOf).toHaveLength(5);
  expect(schema.additionalProperties).toBeUndefined();
  expect(json.paths[CHAT].post.description).toContain("service_tier");
});

test("with keys, everything but health needs one", async () => {
  await using served = await startServer({ apiKeys: ["the-right-key"] });
  for (const path of ["/v1/models", "/metrics", "/openapi.json", "/nothing"]) {
    expect((await served.get(path)).status).toBe(401);
  }
  const refused = await served.post("/v1/messages", { messages });
  expect([refused.status, refused.json.error.type]).toEqual([401, "authentication_error"]);
  expect((await served.get("/health")).status).toBe(200);
  expect((await served.get("/v1/models", { authorization: "Bearer the-right-key" })).status).toBe(200);
  expect((await served.post(CHAT, { messages }, { "x-api-key": "the-right-key" })).status).toBe(200);
  expect(served.log.join("")).not.toContain("the-right-key");
});

test("pages of others get nothing by default, and what is listed gets through", async () => {
  const origin = "https://page.example";
  const ask = (url: string) =>
    fetch(url + CHAT, { method: "OPTIONS", headers: { origin, "access-control-request-method": "POST" } });
  await using closed = await startServer();
  const refused = await ask(closed.url);
  expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([404, null]);
  await using open = await startServer({ corsOrigins: [origin], apiKeys: ["the-right-key"] });
  const allowed = await ask(open.url);
  expect([allowed.status, allowed.headers.get("access-control-allow-origin")]).toEqual([204, origin]);
  const headers = { origin, "x-api-key": "the-right-key" };
  for (const stream of [false, true]) {
    expect((await open.post(CHAT, { messages, stream }, headers)).headers.get("access-control-allow-origin")).toBe(
      origin,
    );
  }
});

test("a name that is not this machine's is refused", async () => {
  await using served = await startServer();
  const answer = await speak(served, "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
  expect(answer).toMatch(/^HTTP\/1\.1 403 /);
});

test("errors have their API's shape, wherever they come from", async () => {
  await using served = await startServer({ limits: { bodyBytes: 1000, headerBytes: 2000, jsonDepth: 8 } });
  const cases: [string, string | Uint8Array, Record<string, string>, number][] = [
    ["not JSON", "{", {}, 400],
    ["nothing", "", {}, 400],
    ["a list", "[]", {}, 400],
    ["a number", "5", {}, 400],
    ["null", "null", {}, 400],
    ["bad UTF-8", Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d), {}, 400],
    ["too deep", `{"messages":${"[".repeat(9)}${"]".repeat(9)}}`, {}, 400],
    ["too large", JSON.stringify({ messages: "x".repeat(2000) }), {}, 413],
    ["another type", "{}", { "content-type": "text/plain" }, 415],
    ["a form", "a=b", { "content-type": "application/x-www-form-urlencoded" }, 415],
  ];
  for (const [name, body, headers, status] of cases) {
    const openAi = await served.post(CHAT, body, headers);
    expect([name, openAi.status, typeof openAi.json.error.message]).toEqual([name, status, "string"]);
    const anthropic = await served.post("/v1/messages", body, headers);
    expect([name, anthropic.status, anthropic.json.type]).toEqual([name, status, "error"]);
  }
  expect((await served.get("/v1/messages/other")).json.type).toBe("error");
  expect((await served.get("/other")).json.error.code).toBe("not_found");
  expect((await served.get(CHAT)).status).toBe(404);
});

test("what is not HTTP is answered and closed", async () => {
  await using served = await startServer({ limits: { headerBytes: 2000 } });
  expect(await speak(served, "nonsense\r\n\r\n")).toMatch(/^HTTP\/1\.1 400 .*"invalid_request"/s);
  expect(await speak(served, `GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(4000)}\r\n\r\n`)).toMatch(
    /^HTTP\/1\.1 431 /,
  );
  expect((await served.get("/health")).status).toBe(200);
});

const HALF = halfPostText(CHAT);

test("a request that never arrives is given up", async () => {
  await using served = await startServer({ limits: { receiveTimeoutMs: 100 } });
  expect(await speak(served, HALF)).toMatch(/^HTTP\/1\.1 408 /);
  expect((await served.get("/metrics")).text).toContain("rocmforge_http_requests_in_flight 0");
});

test("a request that is half there does not keep the server from stopping", async () => {
  const served = await startServer();
  const half = speak(served, HALF);
  await until(() => served.log.length > 0);
  expect((await served.get("/health")).status).toBe(200);
  await served.server.stop(0);
  expect(await half).toMatch(/^HTTP\/1\.1 503 [^]*"server_stopping"/);
});

test("limits are options", async () => {
  await using served = await startServer({
    limits: {
      choices: 2,
      messages: 2,
      tools: 1,
      stopStrings: 1,
      logitBiasEntries: 1,
      promptCharacters: 40,
      promptTokens: 30,
      outputTokens: 4,
    },
  });
  const tool = (name: string) => ({ type: "function", function: { name } });
  const refused: [object, string][] = [
    [{ messages, n: 3 }, "n"],
    [{ messages: [...messages, ...messages, ...messages] }, "messages"],
    [{ messages, tools: [tool("a"), tool("b")] }, "tools"],
    [{ messages, stop: ["a", "b"] }, "stop"],
    [{ messages, logit_bias: { 1: 1, 2: 1 } }, "logit_bias"],
    [{ messages: [{ role: "user", content: "x".repeat(41) }] }, "messages"],
    [{ messages: [{ role: "user", content: "x".repeat(15) }] }, "messages"],
  ];
  for (const [body, param] of refused) {
    const { status, json } = await served.post(CHAT, body);
    expect([status, json.error.param]).toEqual([400, param]);
  }
  expect((await served.post(CHAT, { messages })).json.choices[0].message.content).toBe("Hell");
});

test("a response is told by events of its own API", async () => {
  await using served = await startServer();
  served.model.script.answer = () => `<think>hm</think>Well. [weather {"city":"Oslo"}]`;
  const tools = [{ type: "function", name: "weather", parameters: { type: "object" } }];
  const { text } = await served.post("/v1/responses", {
    input: "Hi",
    tools,
    stream: true,
    include: ["message.output_text.logprobs"],
  });
  const events = eventsOf(text);
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
  const kinds = events.map(({ type }) => type.replace("response.", ""));
  expect(kinds.filter((kind, index) => kind !== kinds[index - 1])).toEqual([
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "reasoning_text.delta",
    "reasoning_text.done",
    "content_part.done",
    "output_item.done",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "output_item.added",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.done",
    "completed",
  ]);
  expect(text).toContain("event: response.completed\n");
  const told = events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
  expect(events.at(-1).response.output).toEqual(told);
  expect(told[1].content[0].logprobs.length).toBeGreaterThan(0);
});

test("a response that is cut says so, and what would change it is refused", async () => {
  await using served = await startServer();
  const cut = await served.post("/v1/responses", { input: "Hi", max_output_tokens: 3 });
  expect(cut.json).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } });
  expect(cut.json.output[0]).toMatchObject({ status: "incomplete", content: [{ text: "Hel" }] });
  for (const fields of [
    { previous_response_id: "resp_1" },
    { conversation: "c" },
    { background: true },
    { truncation: "some" },
    { prompt: { id: "p" } },
    { tools: [{ type: 5 }] },
    { tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "web_search" }] } },
    { response_format: { type: "json_object" } },
    { guided_json: {} },
    { input: [] },
    { metadata: { a: 1 } },
  ]) {
    const { status, json } = await served.post("/v1/responses", { input: "Hi", ...fields });
    expect([fields, status]).toEqual([fields, 400]);
    expect(json.error.param).toContain(Object.keys(fields)[0]);
  }
  const harmless = {
    truncation: "auto",
    background: false,
    store: true,
    max_output_tokens: -1,
    text: { verbosity: "low" },
    tools: [{ type: "web_search" }],
    client_metadata: {},
  };
  const { status, json } = await served.post("/v1/responses", { input: "Hi", ...harmless });
  expect([status, json.truncation, json.tools]).toEqual([200, "auto", []]);
});

test("HEAD is answered wherever GET is", async () => {
  await using served = await startServer();
  const { json: document } = await served.get("/openapi.json");
  const paths = Object.entries<object>(document.paths).flatMap(([path, operations]) =>
    "get" in operations ? [path] : [],
  );
  expect(paths).toContain("/v1/models");
  const { json: response } = await served.post("/v1/responses", { input: "Hi" });
  const headers = { accept: "text/html, application/json, */*" };
  const { text: page } = await served.get("/", headers);
  const file = /\/page\/(?<name>[\w.-]+\.js)/.exec(page)?.groups?.["name"] ?? "";
  for (const path of paths) {
    const id = path.startsWith("/page/") ? file : path.includes("responses") ? response.id : "fake";
    const url = served.url + path.replace("{id}", id);
    const [head, get] = [await fetch(url, { method: "HEAD", headers }), await fetch(url, { headers })];
    expect([path, head.status, await head.text()]).toEqual([path, 200, ""]);
    expect(head.headers.get("content-type")).toBe(get.headers.get("content-type"));
    await get.text();
  }
  expect((await fetch(`${served.url}/nothing`, { method: "HEAD" })).status).toBe(404);
  expect((await fetch(served.url + CHAT, { method: "HEAD" })).status).toBe(404);
});

test("paths may leave the version out", async () => {
  await using served = await startServer();
  for (const [path, body] of [
    ["/chat/completions", { messages }],
    ["/completions", { prompt: "a" }],
    ["/embeddings", { input: "a" }],
    ["/responses", { input: "Hi" }],
    ["/messages", { messages, max_tokens: 5 }],
    ["/messages/count_tokens?beta=true", { messages }],
  ] as const) {
    expect([path, (await served.post(path, body)).status]).toEqual([path, 200]);
  }
  expect((await served.get("/models")).json.data[0].id).toBe("fake");
  expect((await served.get("/models/fake")).json.id).toBe("fake");
  // In the shape of its API.
  expect((await served.post("/messages", { messages: [] })).json).toMatchObject({
    type: "error",
    error: { type: "invalid_request_error" },
  });
  expect((await served.get("/modelsy")).status).toBe(404);
  expect((await served.get("/v1/v1/models")).status).toBe(404);
});

test("rejects a body that is compressed", async () => {
  await using served = await startServer();
  const body = gzipSync(JSON.stringify({ messages }));
  const { status, json } = await answerTo(served.url + CHAT, { "content-encoding": "gzip" }, body);
  expect([status, json.error.code]).toEqual([415, "unsupported_media_type"]);
  expect(json.error.message).toContain(`found "gzip"`);
  expect(
    (await answerTo(served.url + CHAT, { "content-encoding": "identity" }, Buffer.from(JSON.stringify({ messages }))))
      .status,
  ).toBe(200);
  const anthropic = await answerTo(`${served.url}/v1/messages`, { "content-encoding": "br" }, body);
  expect([anthropic.status, anthropic.json.type]).toEqual([415, "error"]);
});

async function answerTo(url: string, headers: Record<string, string>, body: Buffer) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: new Uint8Array(body),
  });
  return { status: response.status, json: JSON.parse(await response.text()) };
}

describe("a model that is called by another name", () => {
  const named = { model: "gpt-5", messages };

  test("answers where it is the only one, under its own", async () => {
    await using served = await startServer();
    expect((await served.post(CHAT, named)).json.model).toBe("fake");
    const stream = eventsOf((await served.post(CHAT, { ...named, stream: true })).text);
    expect(stream.every(({ model }) => model === "fake")).toBe(true);
    expect((await served.post("/v1/messages", { ...named, max_tokens: 5 })).json.model).toBe("fake");
    expect((await served.post("/v1/responses", { model: "gpt-5", input: "Hi" })).json.model).toBe("fake");
    expect((await served.post("/v1/embeddings", { model: "gpt-5", input: "Hi" })).json.model).toBe("fake");
    expect((await served.get("/v1/models/gpt-5")).status).toBe(404);
  });

  test("is not found where there are others, or the server is strict", async () => {
    await using two = await startServer({}, [new FakeModel("other")]);
    expect((await two.post(CHAT, named)).status).toBe(404);
    expect((await two.post(CHAT, { ...named, model: "other" })).json.model).toBe("other");
    await using strict = await startServer({ strict: true });
    const { status, json } = await strict.post(CHAT, named);
    expect([status, json.error.code]).toEqual([404, "model_not_found"]);
    expect((await strict.post(CHAT, { messages })).status).toBe(200);
  });
});

test("system_fingerprint is one model's, whole and streamed", async () => {
  await using served = await startServer({}, [new FakeModel("other")]);
  const ask = { model: "fake", messages };
  const { system_fingerprint: own } = (await served.post(CHAT, ask)).json;
  expect(own).toMatch(/^fp_[0-9a-f]{10}$/);
  for (const chunk of eventsOf((await served.post(CHAT, { ...ask, stream: true })).text))
    expect(chunk.system_fingerprint).toBe(own);
  expect((await served.post("/v1/completions", { model: "fake", prompt: "a" })).json.system_fingerprint).toBe(own);
  expect((await served.post(CHAT, { ...ask, model: "other" })).json.system_fingerprint).not.toBe(own);
});

test("serves HTTP/1.0 without a host, as load balancers ask, and HTTP/1.1 with one only", async () => {
  await using served = await startServer();
  expect(await speak(served, "GET /health HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 /);
  expect(await speak(served, "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")).toMatch(/^HTTP\/1\.1 400 /);
  expect(await speak(served, "GET /health HTTP/1.0\r\nHost: evil.example\r\n\r\n")).toMatch(/^HTTP\/1\.1 403 /);
});

test("logs the path of what is not there, without its query", async () => {
  await using served = await startServer();
  await served.get("/v1/nothing?key=secret");
  await until(() => served.log.length > 0);
  const lines = served.log.map((line) => JSON.parse(line) as { readonly msg: string });
  expect(lines.find(({ msg }) => msg === "request")).toMatchObject({ method: "GET", path: "/v1/nothing", status: 404 });
  expect(served.log.join("")).not.toContain("secret");
});

test("counts log lines that were dropped", async () => {
  const logDestination = { droppedLines: 7, write: () => {} };
  await using served = await startServer({ logDestination });
  expect((await served.get("/metrics")).text).toContain("rocmforge_log_lines_dropped_total 7");
});

test("names the rule that a list of stop strings breaks", async () => {
  await using served = await startServer();
  const problems = await Promise.all(
    [Array.from({ length: 17 }, String), ["a", ""], 5].map(
      async (stop) => (await served.post(CHAT, { messages, stop })).json.error.message,
    ),
  );
  expect(problems).toEqual([
    "[stop] expected at most 16 elements, found more",
    "[stop[1]] expected at least 1 characters, found less",
    "[stop] expected a string, or a list of non-empty strings",
  ]);
});

test("health tells of models that have failed, and has them tried again", async () => {
  await using served = await startServer({}, [new FakeModel("other")]);
  served.pool.states.set("other", "failed");
  expect(await served.get("/health")).toMatchObject({ status: 200, json: { status: "degraded" } });
  served.pool.states.set("fake", "failed");
  const failed = await served.get("/health");
  expect([failed.status, failed.json, failed.headers.get("retry-after")]).toEqual([503, { status: "failed" }, "10"]);
  expect(served.pool.recoveries).toBe(2);
  served.pool.states.clear();
  expect((await served.get("/health")).json).toEqual({ status: "ok" });
});

test("a damaged model file is reported as such, without its path", async () => {
  await using served = await startServer();
  served.model.script.refuse = () =>
    new GgufError(
      "GGUF_TRUNCATED",
      { field: "tensor data", expected: "all of it", found: "less" },
      { details: { path: "/secret/fake.gguf" } },
    );
  const { status, json, text, headers } = await served.post(CHAT, { messages });
  expect([status, json.error.code, headers.get("retry-after")]).toEqual([503, "model_unavailable", "10"]);
  expect(json.error.message).toContain("GGUF_TRUNCATED");
  expect(text).not.toContain("secret");
});
