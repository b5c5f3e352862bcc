// A server on a free port with fakes behind it, and plain requests to it.

import { Writable } from "node:stream";
import type { ServerOptions } from "../completion/server-options.js";
import { createServer, type Server } from "../server.js";
import { FakeModel, FakeModelPool } from "./fake-model.js";
import { FakeChat, FakeGrammar } from "./fake-services.js";

/** A running server with the fakes behind it. */
export interface TestServer extends AsyncDisposable {
  readonly server: Server;
  readonly url: string;
  readonly pool: FakeModelPool;
  readonly model: FakeModel;
  readonly chat: FakeChat;
  readonly grammar: FakeGrammar;
  readonly log: string[];
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // Tests read fields of responses freely.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
}

/** Starts a server with a scripted model, listening on a free port. */
export async function startServer(
  options: Partial<ServerOptions> = {},
  others: readonly FakeModel[] = [],
  model: FakeModel = new FakeModel(),
): Promise<TestServer> {
  const chat = new FakeChat();
  const grammar = new FakeGrammar();
  const log: string[] = [];
  const logDestination = new Writable({
    write(chunk: Buffer, _, done) {
      log.push(chunk.toString());
      done();
    },
  });
  const pool = new FakeModelPool(model, ...others);
  const server = createServer({ pool, chat, grammar, port: 0, logDestination, ...options });
  const url = await server.listen();
  return {
    server,
    url,
    pool,
    model,
    chat,
    grammar,
    log,
    post: async (path, body, headers = {}) =>
      answerOf(
        await fetch(url + path, {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
        }),
      ),
    get: async (path, headers = {}) => answerOf(await fetch(url + path, { headers })),
    [Symbol.asyncDispose]: () => server.stop(0),
  };
}

/** The data of each event, in order; `[DONE]` is left out. */
// oxlint-disable-next-line typescript/no-explicit-any
export function eventsOf(text: string): any[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: ") && line !== "data: [DONE]")
    .map((line) => JSON.parse(line.slice("data: ".length)));
}

/** Waits until a condition holds, at most for the test's time limit. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}
