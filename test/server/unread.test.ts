// Answers that are read slowly, late or not at all, alone and behind others on their connection.

import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { PlainClient, postText } from "../../src/server/testing/plain-client.js";
import { startServer, type TestServer, until } from "../../src/server/testing/test-server.js";

const CHAT = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hi" }];

const inFlight = async (served: TestServer): Promise<string | undefined> =>
  /rocmforge_http_requests_in_flight (\d+)/.exec((await served.get("/metrics")).text)?.[1];
const loggedStatuses = ({ log }: TestServer): readonly string[] =>
  [...log.join("").matchAll(/"status":(\d+)/g)].map(([, status]) => String(status)).sort();

const UNREAD_TIMEOUT_MS = 1000;

/** Some kilobytes each time, for longer than an answer may lie unread, and then the rest. */
async function readSlowly(client: PlainClient, slowMs: number, end: string): Promise<void> {
  const slowUntilMs = performance.now() + slowMs;
  let last = "";
  while (!last.endsWith(end) && !client.isEnded) {
    last = (last + client.readSome()).slice(-end.length);
    await pause(performance.now() < slowUntilMs ? 10 : 0);
  }
  expect(last).toBe(end);
}

test("an answer that is read slowly and steadily comes whole", async () => {
  await using served = await startServer({ limits: { unreadTimeoutMs: UNREAD_TIMEOUT_MS } });
  // Sixty megabytes: more than the sockets on both sides hold.
  served.model.script.embed = () => new Float32Array(120_000);
  using client = await PlainClient.connect(served.url);
  client.send(postText("/v1/embeddings", { input: Array.from({ length: 100 }, () => "x"), encoding_format: "base64" }));
  await readSlowly(client, 2 * UNREAD_TIMEOUT_MS, `"total_tokens":200}}`);
});

test("a stream that is read slowly and steadily comes whole", async () => {
  await using served = await startServer({
    limits: { unreadBytes: 1.2e7, unreadTimeoutMs: UNREAD_TIMEOUT_MS, logprobEntries: 1e9 },
  });
  // Of which enough waits to be read that it takes several times as long.
  served.model.script.answer = () => "x".repeat(1500);
  using client = await PlainClient.connect(served.url);
  client.send(postText(CHAT, { messages, stream: true, n: 16, logprobs: true, top_logprobs: 20 }));
  await readSlowly(client, 4 * UNREAD_TIMEOUT_MS, "data: [DONE]\n\n\r\n0\r\n\r\n");
});

test.each([false, true])(
  "an answer that waited behind one that was read, and is not read itself, is given up (stream: %s)",
  async (stream) => {
    await using served = await startServer({
      limits: { unreadBytes: 1000, unreadTimeoutMs: 100, logprobEntries: 1e9 },
    });
    served.model.script.answer = () => "x".repeat(1000);
    let release!: () => void;
    const gate = new Promise<void>((resolve) => (release = resolve));
    served.model.script.beforeDelta = (_, { maxTokens }) => (maxTokens === 1 ? gate : Promise.resolve());
    using client = await PlainClient.connect(served.url);
    client.send(
      postText(CHAT, { messages, max_tokens: 1 }) +
        postText(CHAT, { messages, stream, n: 16, logprobs: true, top_logprobs: 20 }),
    );
    // The second has what it can say before it has the socket.
    await until(() => served.model.requests.length === 2 && (stream || served.model.running === 1));
    release();
    let read = "";
    await until(() => (read += client.readSome()).includes(`"content":"x"`));
    await until(() => loggedStatuses(served).length === 2);
    expect(loggedStatuses(served)).toEqual(["200", "499"]);
    expect([served.model.running, await inFlight(served)]).toEqual([0, "0"]);
  },
);

test("a stream that was read after a while and is then quiet is not given up", async () => {
  const unreadTimeoutMs = 200;
  await using served = await startServer({
    limits: { unreadBytes: 1000, unreadTimeoutMs, keepAliveMs: 60_000, logprobEntries: 1e9 },
  });
  // Much at once, which is unread for a while, and then nothing for longer than it may be unread.
  const most = 3000;
  served.model.script.answer = () => `${"x".repeat(most)}!`;
  let release!: () => void;
  const gate = new Promise<void>((resolve) => (release = resolve));
  let isQuiet = false;
  served.model.script.beforeDelta = (index) => {
    if (index < most) return Promise.resolve();
    isQuiet = true;
    return gate;
  };
  using client = await PlainClient.connect(served.url);
  client.send(postText(CHAT, { messages, stream: true, logprobs: true, top_logprobs: 20 })).read();
  await until(() => isQuiet);
  await pause(3 * unreadTimeoutMs);
  release();
  await until(() => client.isEnded || client.text.includes("[DONE]"));
  expect(client.text).toContain("[DONE]");
});

test("an answer of which nothing is read is given up, behind another or not", async () => {
  await using served = await startServer({ limits: { unreadBytes: 1000, unreadTimeoutMs: 100, logprobEntries: 1e9 } });
  served.model.script.answer = () => "x".repeat(600);
  using client = await PlainClient.connect(served.url);
  const large = { messages, n: 16, logprobs: true, top_logprobs: 20 };
  client.send(
    postText(CHAT, { ...large, stream: true }) + postText(CHAT, { ...large, stream: true }) + postText(CHAT, large),
  );
  await until(() => loggedStatuses(served).length === 3);
  expect(loggedStatuses(served)).toEqual(["499", "499", "499"]);
  expect([served.model.running, await inFlight(served)]).toEqual([0, "0"]);
});

test("a connection that has read its answer is not closed for being silent", async () => {
  await using served = await startServer({ limits: { unreadTimeoutMs: 50 } });
  using client = await PlainClient.connect(served.url);
  client.read();
  for (const [index, stream] of [false, true, false].entries()) {
    client.send(postText(CHAT, { messages, stream }));
    await until(() => loggedStatuses(served).length === index + 1);
    await pause(200);
  }
  // Neither is one whose next answer takes long.
  let release!: () => void;
  const gate = new Promise<void>((resolve) => (release = resolve));
  served.model.script.beforeDelta = (_, { maxTokens }) => (maxTokens === 3 ? gate : Promise.resolve());
  client.send(postText(CHAT, { messages, max_tokens: 2 }) + postText(CHAT, { messages, max_tokens: 3 }));
  await pause(200);
  release();
  await until(() => client.isEnded || client.text.includes(`"content":"Hel"`));
  expect(client.isEnded).toBe(false);
});
