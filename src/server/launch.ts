// From model files to a server that listens: the shelf of models, chats, grammars and HTTP put together, and taken apart
// in the opposite order. Invariant: whatever fails on the way, nothing is left behind.

import { ChatRenderer } from "../chat/chat-renderer.js";
import { createModelShelf, type ShelfEntry } from "../engine/model-shelf.js";
import type { Model } from "../engine/model.js";
import { createServedModel } from "../engine/served-model.js";
import type { ServingOptions } from "../engine/serving-options.js";
import type { ModelListing, ModelShelf, ServedModel } from "../engine/serving.js";
import { refuseValue } from "../options.js";
import { isLoopback } from "./access.js";
import { GrammarThreads } from "./grammar-threads.js";
import { DEFAULT_HOST, DEFAULT_PORT, type ServerOptions } from "./options.js";
import { createServer, type Server } from "./server.js";

/** What can be said about the server, once the rest is put together here. */
export type ServerSettings = Omit<ServerOptions, "shelf" | "chat" | "grammar">;

export interface LaunchOptions {
  /** The first is loaded at once, the others when somebody asks for them. */
  readonly models: readonly ShelfEntry[];
  /** Opens a model's file, on whatever shall compute it. */
  readonly openModel: (path: string) => Promise<Model>;
  readonly serving: ServingOptions;
  /** A model that nobody used for so long is unloaded; undefined: none is. */
  readonly idleTimeoutMs: number | undefined;
  readonly server: ServerSettings;
}

export interface RunningServer extends AsyncDisposable {
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  /** It listens beyond this machine and asks for no key. */
  readonly isOpenToAll: boolean;
  models(): readonly ModelListing[];
  /** Finishes what runs, for at most so long, refuses what is new, and frees everything. */
  stop(timeoutMs: number): Promise<void>;
}

export async function launch({ models, openModel, serving, idleTimeoutMs, server: serverOptions }: LaunchOptions): Promise<RunningServer> {
  const [first] = models;
  if (first === undefined) refuseValue("serve", "models", "at least one model", "none");
  const shelf = createModelShelf({
    models,
    load: async ({ name, path }) => await createServedModel(name, await openModel(path), serving),
    ...(idleTimeoutMs === undefined ? {} : { idleTimeoutMs }),
  });
  const chat = new ChatRenderer();
  const grammar = new GrammarThreads();
  const server = createServer({ ...serverOptions, shelf, chat, grammar });
  const parts: Parts = { server, shelf, threads: [chat, grammar] };
  try {
    // Before anything is loaded: a port that is taken is not worth the wait.
    const url = await listen(server, serverOptions);
    await shelf.with(first.name, warmUp);
    return runningServer(parts, url, serverOptions);
  } catch (error) {
    await takeApart(parts, 0);
    throw error;
  }
}

interface Parts {
  readonly server: Server;
  readonly shelf: ModelShelf;
  readonly threads: readonly AsyncDisposable[];
}

async function takeApart({ server, shelf, threads }: Parts, timeoutMs: number): Promise<void> {
  await server.stop(timeoutMs);
  await shelf[Symbol.asyncDispose]();
  await Promise.all(threads.map((part) => part[Symbol.asyncDispose]()));
}

function runningServer(parts: Parts, url: string, { host = DEFAULT_HOST, apiKeys = [] }: ServerSettings): RunningServer {
  let stopped: Promise<void> | undefined;
  const stop = (timeoutMs: number): Promise<void> => (stopped ??= takeApart(parts, timeoutMs));
  return {
    url,
    isOpenToAll: !isLoopback(host) && apiKeys.length === 0,
    models: () => parts.shelf.list(),
    stop,
    [Symbol.asyncDispose]: () => stop(0),
  };
}

/** Weights are loaded, and kernels compiled, by the first step; nobody's request has to wait for that. */
async function warmUp(model: ServedModel): Promise<void> {
  await model.complete({ prompt: Int32Array.of(model.tokenizer.bosToken ?? 0), maxTokens: 1 }).summary;
}

async function listen(server: Server, { host = DEFAULT_HOST, port = DEFAULT_PORT }: ServerSettings): Promise<string> {
  try {
    return await server.listen();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    switch (code) {
      case "EADDRINUSE":
        return refuseValue("server", "port", "one that is free", `${port}, which another program listens on`);
      case "EACCES":
        return refuseValue("server", "port", "one that this user may listen on", String(port));
      case "EADDRNOTAVAIL":
      case "ENOTFOUND":
      case "EAI_AGAIN":
        return refuseValue("server", "host", "an address of this machine", host);
      default:
        throw error;
    }
  }
}
