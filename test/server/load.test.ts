// Under load and faults: clients that leave, clients that do not read, too many of them, and a server that stops.

import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { PlainClient, postText } from "../../src/server/testing/plain-client.js";
import { startServer, type TestServer, until } from "../../src/server/testing/test-server.js";

const CHAT = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hi" }];
const forever = (): Promise<void> => new Promise(() => {});

/** Of a client that reads only when told to. */
async function openSocket({ url }: TestServer, path: string, body: object): Promise<Socket> {
  return (await PlainClient.connect(url)).send(postText(path, body)).socket;
}

test("a request is cancelled when its client disconnects: before the first delta, between deltas, streamed or not", async () => {
  await using served = await startServer();
  for (const stream of [false, true]) {
    for (const deltas of [0, 4]) {
      served.model.script.beforeDelta = (index) => (index < deltas ? Promise.resolve() : forever());
      const socket = await openSocket(served, CHAT, { messages, stream });
      await until(() => served.model.running === 1);
      socket.destroy();
      await until(() => served.model.running === 0);
    }
  }
  expect(served.model.cancelled).toBe(4);
  expect((await served.get("/metrics")).text).toContain(`status="499"} 4`);
});

test("a client that disconnects while its model is loaded is not waited for", async () => {
  await using served = await startServer();
  let loaded!: () => void;
  served.pool.loading = new Promise((resolve) => {
    loaded = resolve;
  });
  const socket = await openSocket(served, CHAT, { messages });
  await until(() => served.log.length > 0);
  const { text } = await served.get("/metrics");
  expect(text).toContain("rocmforge_http_requests_in_flight 1");
  socket.destroy();
  await until(() => served.log.join("").includes(`"status":499`));
  expect((await served.get("/metrics")).text).toContain("rocmforge_http_requests_in_flight 0");
  loaded();
  expect((await served.post(CHAT, { messages })).status).toBe(200);
  expect(served.model.requests).toHaveLength(1);
});

test("a client that disconnects while its grammar is compiled frees everything", async () => {
  await using served = await startServer();
  served.model.script.beforeDelta = forever;
  const socket = await openSocket(served, CHAT, { messages, response_format: { type: "json_object" } });
  await until(() => served.grammar.open === 1);
  socket.destroy();
  await until(() => served.grammar.open === 0 && served.model.running === 0);
});

test("a client that does not read is cancelled, and no other client waits for it", async () => {
  await using served = await startServer({ limits: { unreadBytes: 1000, unreadTimeoutMs: 150, logprobEntries: 1e9 } });
  // Far more than the sockets on both sides hold.
  const long = "x".repeat(200);
  served.model.script.answer = () => long.repeat(200);
  const socket = await openSocket(served, CHAT, { messages, stream: true, n: 16, logprobs: true, top_logprobs: 20 });
  await until(() => served.model.running === 1);
  served.model.script.answer = () => "quick";
  expect((await served.post(CHAT, { messages })).json.choices[0].message.content).toBe("quick");
  await until(() => served.model.running === 0);
  expect(served.model.cancelled).toBe(1);
  expect(served.log.join("")).toContain("the client does not read its response");
  socket.destroy();
});

test("a client that reads slowly gets all of it", async () => {
  await using served = await startServer({ limits: { unreadBytes: 1000, unreadTimeoutMs: 60_000 } });
  served.model.script.answer = () => "x".repeat(3000);
  const socket = await openSocket(served, CHAT, { messages, stream: true, logprobs: true, top_logprobs: 20 });
  await until(() => served.model.requests.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 100));
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString();
  });
  socket.resume();
  await until(() => text.includes("[DONE]"));
  expect(text.split(`"content":"x"`)).toHaveLength(3001);
  socket.destroy();
});

test("an answer that is not streamed and not read is given up, too", async () => {
  await using served = await startServer({ limits: { unreadTimeoutMs: 100 } });
  // Sixty megabytes: more than the sockets on both sides hold.
  served.model.script.embed = () => new Float32Array(120_000);
  const socket = await openSocket(served, "/v1/embeddings", {
    input: Array.from({ length: 100 }, () => "x"),
    encoding_format: "base64",
  });
  await until(() => served.log.join("").includes(`"status":499`));
  expect((await served.get("/metrics")).text).toContain("rocmforge_http_requests_in_flight 0");
  socket.destroy();
});

test("one request more than the limit is refused with a time to retry", async () => {
  await using served = await startServer({ limits: { concurrentRequests: 2 } });
  served.model.script.beforeDelta = forever;
  const held = await Promise.all([openSocket(served, CHAT, { messages }), openSocket(served, CHAT, { messages })]);
  await until(() => served.model.running === 2);
  const refused = await served.post(CHAT, { messages });
  expect([refused.status, refused.headers.get("retry-after"), refused.json.error.code]).toEqual([
    429,
    "1",
    "rate_limit_exceeded",
  ]);
  expect((await served.get("/health")).status).toBe(200);
  for (const socket of held) socket.destroy();
  await until(() => served.model.running === 0);
  served.model.script = {};
  await until(() => served.server.app.server.listening);
  expect((await served.post(CHAT, { messages })).status).toBe(200);
});

test("a stream that waits says so after a while, and what fails then is an event", async () => {
  await using served = await startServer({ limits: { keepAliveMs: 20 } });
  let release!: () => void;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  served.model.script.beforeDelta = () => gate;
  const response = await fetch(served.url + CHAT, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages, stream: true }),
  });
  expect(response.status).toBe(200);
  release();
  const text = await response.text();
  expect(text).toMatch(/^: waiting\n\n/);
  expect(text).toContain("[DONE]");
});

test("stopping finishes what runs, refuses what is new, and closes", async () => {
  const served = await startServer();
  let release!: () => void;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  served.model.script.beforeDelta = (index) => (index === 3 ? gate : Promise.resolve());
  const running = served.post(CHAT, { messages, stream: true });
  await until(() => served.model.running === 1);
  let stopped = false;
  const stopping = (async () => {
    await served.server.stop(60_000);
    stopped = true;
  })();
  for (const path of [CHAT, "/v1/messages"]) {
    const refused = await served.post(path, { messages, max_tokens: 5 });
    expect([refused.status, refused.headers.get("connection"), refused.headers.get("retry-after")]).toEqual([
      503,
      "close",
      "5",
    ]);
  }
  const health = await served.get("/health");
  expect([health.status, health.json]).toEqual([503, { status: "stopping" }]);
  expect(stopped).toBe(false);
  release();
  expect((await running).text).toContain("[DONE]");
  await stopping;
  await expect(served.get("/health")).rejects.toThrow("fetch failed");
  await served.server.stop();
});

test("stopping cancels what does not end in time, and says so", async () => {
  const served = await startServer();
  served.model.script.beforeDelta = (index) => (index < 3 ? Promise.resolve() : forever());
  const streamed = served.post(CHAT, { messages, stream: true });
  const whole = served.post(CHAT, { messages });
  await until(() => served.model.running === 2);
  await served.server.stop(20);
  expect((await streamed).text).toContain("server_stopping");
  expect((await whole).status).toBe(503);
  expect(served.model.running).toBe(0);
});

test("many at once, a third of which leave, and nothing is left over", async () => {
  await using served = await startServer();
  served.model.script.beforeDelta = () => new Promise((resolve) => setImmediate(resolve));
  const clients = Array.from({ length: 60 }, async (_, index) => {
    if (index % 3 > 0) return served.post(CHAT, { messages, stream: index % 2 === 0 });
    const socket = await openSocket(served, CHAT, { messages, stream: index % 2 === 0 });
    await new Promise((resolve) => setTimeout(resolve, index % 7));
    socket.destroy();
    return undefined;
  });
  const answers = await Promise.all(clients);
  expect(answers.filter((answer) => answer !== undefined).map(({ status }) => status)).toEqual(
    Array.from({ length: 40 }, () => 200),
  );
  await until(() => served.model.running === 0);
  expect((await served.get("/metrics")).text).toContain("rocmforge_http_requests_in_flight 0");
});
