// What clients do to their connections: several requests at once, half of one, bytes that are none.

import { setTimeout as pause } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { halfPostText, PlainClient, postText } from "../../src/server/testing/plain-client.js";
import { startServer, type TestServer, until } from "../../src/server/testing/test-server.js";

const CHAT = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hi" }];
const forever = (): Promise<void> => new Promise(() => {});

const inFlight = async (served: TestServer): Promise<string | undefined> =>
  /rocmforge_http_requests_in_flight (\d+)/.exec((await served.get("/metrics")).text)?.[1];
const loggedStatuses = ({ log }: TestServer): readonly string[] =>
  [...log.join("").matchAll(/"status":(\d+)/g)].map(([, status]) => String(status)).sort();

const connections: PlainClient[] = [];
afterEach(() => {
  for (const client of connections.splice(0)) client[Symbol.dispose]();
});

async function connectMany(served: TestServer, count: number): Promise<readonly PlainClient[]> {
  const connected = await Promise.all(Array.from({ length: count }, () => PlainClient.connect(served.url)));
  connections.push(...connected);
  return connected.map((client) => client.read());
}

/** Whatever the clients think of it. */
async function untilClosed({ server: { app } }: TestServer): Promise<void> {
  const count = (): Promise<number> =>
    new Promise((resolve, reject) =>
      app.server.getConnections((error, found) => (error ? reject(error) : resolve(found))),
    );
  while ((await count()) > 0) await pause(5);
}

test("requests that wait behind another on their connection are cancelled with it", async () => {
  await using served = await startServer();
  served.model.script.beforeDelta = (index) => (index < 3 ? Promise.resolve() : forever());
  using client = await PlainClient.connect(served.url);
  client
    .send(
      postText(CHAT, { messages, stream: true }) +
        postText(CHAT, { messages }) +
        postText(CHAT, { messages, stream: true }),
    )
    .read();
  await until(() => served.model.running === 3 && client.text.includes("data: "));
  client.socket.destroy();
  await until(() => served.model.running === 0);
  await until(() => loggedStatuses(served).length === 3);
  expect(loggedStatuses(served)).toEqual(["499", "499", "499"]);
  expect(await inFlight(served)).toBe("0");
});

test("stopping lets go of requests that wait behind another on their connection", async () => {
  const served = await startServer();
  served.model.script.beforeDelta = (index) => (index < 3 ? Promise.resolve() : forever());
  using client = await PlainClient.connect(served.url);
  client.send(postText(CHAT, { messages, stream: true }) + postText(CHAT, { messages })).read();
  await until(() => served.model.running === 2 && client.text.includes("data: "));
  await served.server.stop(20);
  expect(served.model.running).toBe(0);
});

test("requests that wait behind another are answered in order", async () => {
  await using served = await startServer();
  let release!: () => void;
  const gate = new Promise<void>((resolve) => (release = resolve));
  served.model.script.beforeDelta = (_, { maxTokens }) => (maxTokens === 5 ? gate : Promise.resolve());
  using client = await PlainClient.connect(served.url);
  client.send([5, 4, 3].map((count) => postText(CHAT, { messages, max_tokens: count })).join("")).read();
  await until(() => served.model.requests.length === 3);
  release();
  await until(() => client.text.includes(`"content":"Hel"`));
  expect([...client.text.matchAll(/"content":"(\w+)"/g)].map(([, text]) => text)).toEqual(["Hello", "Hell", "Hel"]);
  await until(() => loggedStatuses(served).length === 3);
  expect(loggedStatuses(served)).toEqual(["200", "200", "200"]);
  // The connection stays, and nothing listens to it for what is over.
  expect(client.isEnded).toBe(false);
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await until(() => client.text.includes(`{"status":"ok"}`));
});

test("listeners of a connection do not add up with its requests", async () => {
  await using served = await startServer();
  let connection: NodeJS.EventEmitter | undefined;
  served.server.app.server.once("connection", (socket) => (connection = socket));
  using client = await PlainClient.connect(served.url);
  client.read();
  const counts: number[] = [];
  for (let count = 1; count <= 4; count++) {
    client.send(postText(CHAT, { messages }));
    await until(() => loggedStatuses(served).length === count);
    counts.push(connection?.listenerCount("close") ?? -1);
  }
  expect(new Set(counts).size).toBe(1);
});

test("a connection that got an error response is closed, whatever its client does", async () => {
  await using served = await startServer({
    limits: { receiveTimeoutMs: 100, headerBytes: 2000, concurrentRequests: 1 },
  });
  const broken = [
    halfPostText(CHAT),
    "nonsense\r\n\r\n",
    `GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(4000)}\r\n\r\n`,
  ];
  const answers = [];
  for (const bytes of broken) {
    // It stays.
    const client = await PlainClient.connect(served.url);
    answers.push((await client.send(bytes).read().ended).slice(0, 12));
  }
  expect(answers).toEqual(["HTTP/1.1 408", "HTTP/1.1 400", "HTTP/1.1 431"]);
  await untilClosed(served);
  expect((await served.post(CHAT, { messages })).status).toBe(200);
});

test("a client that sends on after its request was found broken gets the answer", async () => {
  await using served = await startServer();
  using client = await PlainClient.connect(served.url);
  client.send("nonsense\r\n\r\n").read();
  await until(() => client.text.includes("}}"));
  for (let count = 0; count < 5; count++) client.send("more nonsense\r\n");
  expect(await client.ended).toMatch(/^HTTP\/1\.1 400 [^]*"invalid_request"/);
});

test.each([
  ["while an answer streams", { messages, stream: true }, 3],
  ["before an answer has begun", { messages }, 0],
])("bytes that are no HTTP, sent %s, put nothing into it", async (_when, body, deltas) => {
  await using served = await startServer();
  served.model.script.beforeDelta = (index) => (index < deltas ? Promise.resolve() : forever());
  using client = await PlainClient.connect(served.url);
  client.send(postText(CHAT, body)).read();
  await until(() => served.model.running === 1 && (deltas === 0 || client.text.includes("data: ")));
  client.send("nonsense\r\n\r\n");
  expect((await client.ended).match(/HTTP\/1\.1/g) ?? []).toHaveLength(deltas === 0 ? 0 : 1);
  await until(() => served.model.running === 0);
  expect(await inFlight(served)).toBe("0");
});

test("every answer has an id, that of the log", async () => {
  await using served = await startServer({ limits: { receiveTimeoutMs: 100, headerBytes: 2000 } });
  const asked = [
    "GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: localhost\r\nExpect: wonders\r\nConnection: close\r\n\r\n",
    "nonsense\r\n\r\n",
    `GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(4000)}\r\n\r\n`,
    halfPostText(CHAT),
  ];
  const statuses = [];
  for (const bytes of asked) {
    using client = await PlainClient.connect(served.url);
    const answer = await client.send(bytes).read().ended;
    const id = /^x-request-id: (req_\w+)\r$/m.exec(answer)?.[1];
    statuses.push(Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]));
    expect([bytes, id, /^request-id: (\w+)\r$/m.exec(answer)?.[1]]).toEqual([bytes, expect.any(String), id]);
    await until(() => served.log.join("").includes(`"reqId":"${id}"`));
  }
  expect(statuses).toEqual([400, 400, 200, 400, 431, 408]);
  const { text } = await served.get("/metrics");
  for (const [route, status, count] of [
    ["other", 400, 2],
    ["/health", 400, 1],
    ["/health", 200, 1],
    ["other", 431, 1],
    [CHAT, 408, 1],
  ]) {
    expect(text).toContain(`rocmforge_http_requests_total{route="${route}",status="${status}"} ${count}`);
  }
});

test("a path that cannot be is for those who may ask", async () => {
  await using served = await startServer({ apiKeys: ["the-right-key"] });
  expect((await served.get("/%zz")).status).toBe(401);
  expect((await served.get("/%zz", { "x-api-key": "the-right-key" })).status).toBe(400);
  using client = await PlainClient.connect(served.url);
  client.send("GET /%zz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").read();
  expect(await client.ended).toMatch(/^HTTP\/1\.1 403 /);
});

test.each([
  ["closes", (client: PlainClient) => client.socket.destroy(), 400],
  ["resets", (client: PlainClient) => client.socket.resetAndDestroy(), 499],
])("a client that %s its connection during its upload is no fault of the server's", async (_how, leave, status) => {
  await using served = await startServer();
  const client = await PlainClient.connect(served.url);
  client.send(halfPostText(CHAT));
  while ((await inFlight(served)) !== "1");
  leave(client);
  while ((await inFlight(served)) !== "0");
  expect(served.log.join("")).toContain(`"route":"${CHAT}","status":${status}`);
  expect(served.log.join("")).not.toContain(`"level":50`);
});

test("while it stops, only new work is refused", async () => {
  const served = await startServer();
  let release!: () => void;
  served.model.script.beforeDelta = () => new Promise((resolve) => (release = resolve));
  const running = served.post(CHAT, { messages, max_tokens: 1 });
  await until(() => served.model.running === 1);
  const stopping = served.server.stop(60_000);
  const statuses = await Promise.all(
    ["/metrics", "/v1/models", "/openapi.json", "/nothing"].map(async (path) => (await served.get(path)).status),
  );
  expect(statuses).toEqual([200, 200, 200, 404]);
  const health = await served.get("/health");
  expect([health.status, health.headers.get("retry-after")]).toEqual([503, "5"]);
  expect((await served.post("/tokenize", { content: "x" })).status).toBe(503);
  release();
  expect((await running).status).toBe(200);
  await stopping;
});

test.each([Infinity, 2 ** 31, 2 ** 31 - 1])("stopping within %d ms cancels nothing at once", async (timeoutMs) => {
  const served = await startServer();
  let release!: () => void;
  const gate = new Promise<void>((resolve) => (release = resolve));
  served.model.script.beforeDelta = () => gate;
  const running = served.post(CHAT, { messages });
  await until(() => served.model.running === 1);
  const stopping = served.server.stop(timeoutMs);
  await pause(100);
  release();
  expect((await running).status).toBe(200);
  await stopping;
});

test("bodies that arrive at once have a common bound", async () => {
  await using served = await startServer({ limits: { receivingBytes: 2500, bodyBytes: 2000 } });
  const clients = [await PlainClient.connect(served.url), await PlainClient.connect(served.url)];
  for (const client of clients) client.send(halfPostText(CHAT)).read();
  while ((await inFlight(served)) !== "2");
  const large = { messages: [{ role: "user", content: "x".repeat(600) }] };
  const refused = await served.post(CHAT, large);
  expect([refused.status, refused.headers.get("retry-after"), refused.json.error.code]).toEqual([
    429,
    "1",
    "rate_limit_exceeded",
  ]);
  // Small ones have room, and one that is too large is told that.
  expect((await served.post(CHAT, { messages })).status).toBe(200);
  expect((await served.post(CHAT, { messages: "x".repeat(3000) })).status).toBe(413);
  // One whose length is not told is as long as one may be.
  clients.push(await PlainClient.connect(served.url));
  clients[2]
    .send(
      `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    )
    .read();
  await until(() => clients[2].text.startsWith("HTTP/1.1 429 "));
  for (const client of clients) client.socket.destroy();
  while ((await inFlight(served)) !== "0");
  expect((await served.post(CHAT, large)).status).toBe(200);
});

test("a body that has arrived leaves its room to others, and one alone is always taken", async () => {
  await using served = await startServer({ limits: { receivingBytes: 100 } });
  served.model.script.beforeDelta = forever;
  using client = await PlainClient.connect(served.url);
  const large = { messages: [{ role: "user", content: "x".repeat(600) }] };
  client.send(postText(CHAT, large));
  await until(() => served.model.running === 1);
  served.model.script = {};
  expect((await served.post(CHAT, large)).status).toBe(200);
});

test("a half-sent request does not use up the time that stopping has", async () => {
  const served = await startServer();
  const [client] = await connectMany(served, 1);
  client.send(halfPostText(CHAT));
  while ((await inFlight(served)) !== "1");
  const began = performance.now();
  await served.server.stop(60_000);
  expect(performance.now() - began).toBeLessThan(30_000);
  expect(await client.ended).toMatch(/^HTTP\/1\.1 503 [^]*"server_stopping"/);
});

test("a half-sent request behind one that runs ends when that has its answer", async () => {
  const served = await startServer();
  let release!: () => void;
  const gate = new Promise<void>((resolve) => (release = resolve));
  served.model.script.beforeDelta = () => gate;
  const [client] = await connectMany(served, 1);
  client.send(postText(CHAT, { messages }) + halfPostText(CHAT));
  while ((await inFlight(served)) !== "2");
  const stopping = served.server.stop(60_000);
  await pause(1500);
  expect(served.model.running).toBe(1);
  release();
  await stopping;
  expect(await client.ended).toMatch(/^HTTP\/1\.1 200 [^]*"content":"Hello there"/);
});

test("idle connections, however many, make way for a new client", async () => {
  await using served = await startServer();
  await connectMany(served, 2000);
  expect((await served.get("/health")).status).toBe(200);
  expect((await served.post(CHAT, { messages })).status).toBe(200);
});

test("connections that have sent nothing go first, the oldest of them, then those that wait for another request", async () => {
  await using served = await startServer({ limits: { connections: 16 } });
  const [silent, begun, answered] = await connectMany(served, 3);
  begun.send("GET /hea");
  answered.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await until(() => answered.text.endsWith(`{"status":"ok"}`));
  const rest = await connectMany(served, 14);
  await until(() => silent.isEnded);
  expect([begun, answered, ...rest].map(({ isEnded }) => isEnded)).toEqual(Array.from({ length: 16 }, () => false));
  for (const client of rest) client.send("GET /hea");
  await pause(50);
  await connectMany(served, 2);
  await until(() => answered.isEnded);
  expect(rest.filter(({ isEnded }) => isEnded)).toEqual([]);
  begun.send("lth HTTP/1.0\r\n\r\n");
  await begun.ended;
});

test("when every connection has a request under way, health is told and the rest refused", async () => {
  await using served = await startServer({ limits: { connections: 4, reservedConnections: 2 } });
  served.model.script.beforeDelta = forever;
  const busy = await connectMany(served, 4);
  for (const client of busy) client.send(postText(CHAT, { messages }));
  await until(() => served.model.running === 4);
  const [first, checking, asking] = await connectMany(served, 3);
  await until(() => first.isEnded);
  checking.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  asking.send(postText(CHAT, { messages }));
  expect(await checking.ended).toMatch(/^HTTP\/1\.1 200 [^]*"ok"/);
  expect(await asking.ended).toMatch(/^HTTP\/1\.1 503 [^]*"too_many_connections"/);
  expect(served.model.running).toBe(4);
});

test("requests that arrive slowly make way where there is no room for another", async () => {
  await using served = await startServer({ limits: { concurrentRequests: 2 } });
  const slow = await connectMany(served, 2);
  for (const client of slow) client.send(halfPostText(CHAT));
  while ((await inFlight(served)) !== "2");
  expect((await served.post(CHAT, { messages })).status).toBe(429);
  await pause(2100);
  expect((await served.post(CHAT, { messages })).status).toBe(200);
  expect(await slow[0].ended).toMatch(/^HTTP\/1\.1 408 /);
  expect(slow[1].isEnded).toBe(false);
});
