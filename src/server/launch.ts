// From model files to a server that listens: the shelf of models, chats, grammars and HTTP put together, and taken apart
// in the opposite order. Invariants: whatever fails on the way, nothing is left behind; whoever stops it waits for no load
// that no request waits for.

import { ChatRenderer } from "../chat/chat-renderer.js";
import type { ChatConversation } from "../chat/message.js";
import { createModelShelf, type PooledModel, type ShelfEntry } from "../engine/model-pool.js";
import { computeFirstToken } from "../engine/engine.js";
import type { ModelListing, ModelShelf } from "../engine/serving.js";
import type { WarmUpOptions, WarmUpProgress } from "../engine/warm-up.js";
import { ServingError } from "../errors.js";
import { refuseValue } from "../options.js";
import { unlessAborted } from "../worker/unless-aborted.js";
import { isLoopback } from "./http/access.js";
import { GrammarThreads } from "./completion/grammar-compilers.js";
import { Loads } from "./model-loads.js";
import { DEFAULT_HOST, DEFAULT_PORT, type ServerOptions } from "./completion/server-options.js";
import { Readiness } from "./http/readiness.js";
import { createServer, type Server } from "./server.js";

/** What can be said about the server, once the rest is put together here. */
export type ServerSettings = Omit<ServerOptions, "shelf" | "chat" | "grammar" | "readiness">;

/** A model as the server holds it: an open `Model`, or a view of one that the caller owns. */
export interface LaunchedModel extends PooledModel {
  warmUp(options?: WarmUpOptions): Promise<void>;
}

export interface LaunchOptions {
  /** The first is loaded at once, the others when somebody asks for them. */
  readonly models: readonly ShelfEntry[];
  /** Opens a model's file, on the backend that shall compute it. */
  readonly openModel: (entry: ShelfEntry) => Promise<LaunchedModel>;
  /** A model that nobody used for so long is unloaded; undefined: none is. */
  readonly idleTimeoutMs: number | undefined;
  /** Whether each model is warmed up once it is loaded. */
  readonly warmUp?: boolean;
  /** Told how far the first model's warm-up has come. */
  readonly onWarmUp?: ((progress: WarmUpProgress) => void) | undefined;
  readonly server: ServerSettings;
  /** Ends the start, which then fails with its reason; a server that runs is ended by `stop`. */
  readonly signal?: AbortSignal | undefined;
}

export interface RunningServer extends AsyncDisposable {
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  /** It listens beyond this machine and asks for no key. */
  readonly isOpenToAll: boolean;
  /** When the first model's warm-up has ended, or was cut short by `stop`: /health says ok from then on. Never rejects. */
  readonly ready: Promise<void>;
  models(): readonly ModelListing[];
  /** Finishes what runs, for at most so long, refuses what is new, and frees everything. */
  stop(timeoutMs: number): Promise<void>;
}

const NEVER = new AbortController().signal;

/** For a model that is nearly there to be given back when the server stops, however much time there is. */
const SETTLING_MS = 1000;

/** What a template can do is found out with its first chat. */
const FIRST_CHAT: ChatConversation = {
  messages: [{ role: "user", content: "Hello!" }],
  tools: [],
  toolChoice: { kind: "none" },
  thinking: undefined,
  constrained: false,
  templateOptions: {},
};

export async function launch(options: LaunchOptions): Promise<RunningServer> {
  const { models, idleTimeoutMs, server: serverOptions, signal = NEVER } = options;
  const [first] = models;
  if (first === undefined) refuseValue("serve", "models", "at least one model", "none");
  signal.throwIfAborted();
  const chat = new ChatRenderer();
  const grammar = new GrammarThreads();
  const readiness = new Readiness();
  /** Of the models that are loaded or were; none of them rejects. */
  const warmUps = new Map<string, Promise<void>>();
  const loads = new Loads(async (entry, ending) => {
    const model = await load(options, entry, ending);
    const { warmUp = true, onWarmUp } = options;
    const isBusy = (): boolean => server.requestsInFlight > 0;
    if (warmUp)
      warmUps.set(
        entry.name,
        model.warmUp({ isBusy, ...(entry === first && onWarmUp !== undefined ? { onProgress: onWarmUp } : {}) }),
      );
    return model;
  });
  const shelf = createModelShelf({
    models,
    onUnload: (model) => grammar.forget(model),
    load: (entry) => loads.begin(entry),
    ...(idleTimeoutMs === undefined ? {} : { idleTimeoutMs }),
  });
  const server = createServer({ ...serverOptions, shelf, chat, grammar, readiness });
  const parts: Parts = { server, loads, shelf, threads: [chat, grammar] };
  try {
    // Before anything is loaded: a port that is taken is not worth the wait.
    const url = await listen(server, serverOptions);
    // A template that fails is told to those who ask for a chat.
    const ready = shelf.with(first.name, (model) => chat.render(model, FIRST_CHAT, signal).catch(() => {}));
    await unlessAborted(ready, signal);
    readiness.become("warming up");
    const warm = warmUps.get(first.name) ?? Promise.resolve();
    return runningServer(
      parts,
      url,
      warm.then(() => becomeReady(readiness, parts, first.name)),
      serverOptions,
    );
  } catch (error) {
    await takeApart(parts, 0);
    throw error;
  }
}

function becomeReady(readiness: Readiness, { server, shelf }: Parts, name: string): void {
  readiness.become("ok");
  const { warmUpStepsDone = 0, warmUpMs = 0 } = shelf.statistics().get(name) ?? {};
  if (warmUpStepsDone > 0)
    server.app.log.info({ model: name, steps: warmUpStepsDone, durationMs: Math.round(warmUpMs) }, "warmed up");
}

interface Parts {
  readonly server: Server;
  readonly loads: Loads<LaunchedModel>;
  readonly shelf: ModelShelf;
  readonly threads: readonly AsyncDisposable[];
}

async function takeApart({ server, loads, shelf, threads }: Parts, timeoutMs: number): Promise<void> {
  await server.stop(timeoutMs);
  // The shelf would wait for a model that nobody waits for any more.
  loads.abort(
    new ServingError(
      "SERVING_STOPPING",
      "[serve] the server stops, and the model that is being loaded is not wanted any more",
    ),
  );
  await shelf[Symbol.asyncDispose]();
  await Promise.all(threads.map((part) => part[Symbol.asyncDispose]()));
  await loads.settle(SETTLING_MS);
}

async function load({ openModel }: LaunchOptions, entry: ShelfEntry, signal: AbortSignal): Promise<LaunchedModel> {
  const model = await openModel(entry);
  if (signal.aborted) {
    await model[Symbol.asyncDispose]();
    signal.throwIfAborted();
  }
  // Its weights come with the first step, which ends when it is disposed.
  const end = (): void => void model[Symbol.asyncDispose]();
  signal.addEventListener("abort", end, { once: true });
  try {
    return await computeFirstToken(model);
  } finally {
    signal.removeEventListener("abort", end);
  }
}

function runningServer(
  parts: Parts,
  url: string,
  ready: Promise<void>,
  { host = DEFAULT_HOST, apiKeys = [] }: ServerSettings,
): RunningServer {
  let stopped: Promise<void> | undefined;
  const stop = (timeoutMs: number): Promise<void> => (stopped ??= takeApart(parts, timeoutMs));
  return {
    url,
    ready,
    isOpenToAll: !isLoopback(host) && apiKeys.length === 0,
    models: () => parts.shelf.list(),
    stop,
    [Symbol.asyncDispose]: () => stop(0),
  };
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
