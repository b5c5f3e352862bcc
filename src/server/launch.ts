// Starts a server from model files: puts the model pool, chats, grammars and HTTP together, and disposes them in
// reverse order. Invariants: a start that fails leaves nothing behind; stopping does not wait for a load that no
// request waits for.

import { ChatRenderer } from "../chat/chat-renderer.js";
import type { ChatConversation } from "../chat/message.js";
import { createModelPool, type PooledModel, type ModelEntry } from "../engine/model-pool.js";
import { computeFirstToken } from "../engine/engine.js";
import type { ModelEngine, ModelListing, ModelPool } from "../engine/serving.js";
import type { WarmUpOptions, WarmUpProgress } from "../engine/warm-up.js";
import { ServingError } from "../errors.js";
import { refuseValue } from "../options.js";
import { unlessAborted } from "../worker/unless-aborted.js";
import { isLoopback } from "./http/access.js";
import { GrammarCompilers } from "../completion/grammar-compilers.js";
import { Loads } from "./model-loads.js";
import { DEFAULT_HOST, DEFAULT_PORT, type ServerSettings } from "./completion/server-options.js";
import { Readiness } from "./http/readiness.js";
import { createServer, type Server } from "./server.js";

/** A model as the server holds it: an open `Model`, or a view of one that the caller owns. */
export interface LaunchedModel extends PooledModel {
  warmUp(options?: WarmUpOptions): Promise<void>;
}

/** What to serve, and how. */
export interface LaunchOptions {
  /** The models to serve: the first is loaded at once, the others with the first request for them. */
  readonly models: readonly ModelEntry[];
  /** Opens a model file on the chosen backend. */
  readonly openModel: (entry: ModelEntry) => Promise<LaunchedModel>;
  /** Idle time after which a model is unloaded; undefined keeps all loaded. */
  readonly idleTimeoutMs: number | undefined;
  /** Whether each model is warmed up once it is loaded. */
  readonly warmUp?: boolean;
  /** Called with the progress of the first model's warm-up. */
  readonly onWarmUp?: ((progress: WarmUpProgress) => void) | undefined;
  /** Called when the server listens, before the first model is loaded. */
  readonly onListening?: ((addresses: ServerAddresses) => void) | undefined;
  readonly server: ServerSettings;
  /** Aborts the start, which then rejects with its reason; use `stop` for a running server. */
  readonly signal?: AbortSignal | undefined;
}

/** The addresses of a server that listens. */
export interface ServerAddresses {
  /** The server's address: `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The address for clients of Ollama, if there is another one: `http://127.0.0.1:11434`. */
  readonly ollamaUrl: string | undefined;
}

/** A server that listens; disposing it stops it at once. */
export interface RunningServer extends ServerAddresses, AsyncDisposable {
  /** Whether the server accepts connections from other machines without an API key. */
  readonly isOpenToAll: boolean;
  /**
   * Resolves when the first model's warm-up has ended, or `stop` has aborted it: /health reports ok from then on. Never
   * rejects.
   */
  readonly ready: Promise<void>;
  models(): readonly ModelListing[];
  /** Refuses new requests, lets those in flight finish for at most `timeoutMs`, and frees everything. */
  stop(timeoutMs: number): Promise<void>;
}

const NEVER = new AbortController().signal;

/** Time for a load in progress to end when the server stops, so that its model is disposed. */
const SETTLING_MS = 1000;

/** A chat that makes the renderer detect the template's capabilities before the first request. */
const FIRST_CHAT: ChatConversation = {
  messages: [{ role: "user", content: "Hello!" }],
  tools: [],
  toolChoice: { kind: "none" },
  thinking: undefined,
  constrained: false,
  templateOptions: {},
};

/** Starts a server; resolves when the first model is loaded. */
export async function launch(options: LaunchOptions): Promise<RunningServer> {
  const { models, idleTimeoutMs, onListening, server: serverOptions, signal = NEVER } = options;
  const [first] = models;
  if (first === undefined) refuseValue("serve", "models", "at least one model", "none");
  signal.throwIfAborted();
  const chat = new ChatRenderer();
  const grammar = new GrammarCompilers();
  const readiness = new Readiness();
  /** Warm-ups by model name; none of them rejects. */
  const warmUps = new Map<string, Promise<void>>();
  const loads = new Loads(async (entry, ending, onStart) => {
    const model = await load(options, entry, ending, onStart);
    const { warmUp = true, onWarmUp } = options;
    const isBusy = (): boolean => server.requestsInFlight > 0;
    if (warmUp)
      warmUps.set(
        entry.name,
        model.warmUp({ isBusy, ...(entry === first && onWarmUp !== undefined ? { onProgress: onWarmUp } : {}) }),
      );
    return model;
  });
  const pool = createModelPool({
    models,
    onUnload: (model) => grammar.forget(model),
    load: (entry, onStart) => loads.begin(entry, onStart),
    ...(idleTimeoutMs === undefined ? {} : { idleTimeoutMs }),
  });
  const server = createServer({ ...serverOptions, pool, chat, grammar, readiness });
  const parts: Parts = { server, loads, pool, threads: [chat, grammar] };
  try {
    // Before a model is loaded: a port that is in use is reported at once.
    const urls = await listen(server, serverOptions);
    onListening?.(urls);
    // A template that fails is reported to the requests that use it.
    using lease = await pool.acquire(first.name, signal);
    await unlessAborted(
      chat.render(lease.model, FIRST_CHAT, signal).catch(() => {}),
      signal,
    );
    readiness.become("warming up");
    const warm = warmUps.get(first.name) ?? Promise.resolve();
    return runningServer(
      parts,
      urls,
      warm.then(() => becomeReady(readiness, parts, first.name)),
      serverOptions,
    );
  } catch (error) {
    await takeApart(parts, 0);
    throw error;
  }
}

function becomeReady(readiness: Readiness, { server, pool }: Parts, name: string): void {
  readiness.become("ok");
  const { warmUpStepsDone = 0, warmUpMs = 0 } = pool.statistics().get(name) ?? {};
  if (warmUpStepsDone > 0)
    server.app.log.info({ model: name, steps: warmUpStepsDone, durationMs: Math.round(warmUpMs) }, "warmed up");
}

interface Parts {
  readonly server: Server;
  readonly loads: Loads<LaunchedModel>;
  readonly pool: ModelPool;
  readonly threads: readonly AsyncDisposable[];
}

async function takeApart({ server, loads, pool, threads }: Parts, timeoutMs: number): Promise<void> {
  await server.stop(timeoutMs);
  // Otherwise the pool would wait for loads that no request waits for.
  loads.abort(new ServingError("SERVING_STOPPING", "[serve] the server is shutting down, and the model is not loaded"));
  await pool[Symbol.asyncDispose]();
  await Promise.all(threads.map((part) => part[Symbol.asyncDispose]()));
  await loads.settle(SETTLING_MS);
}

async function load(
  { openModel }: LaunchOptions,
  entry: ModelEntry,
  signal: AbortSignal,
  onStart: (engine: ModelEngine) => void,
): Promise<LaunchedModel> {
  const model = await openModel(entry);
  if (signal.aborted) {
    await model[Symbol.asyncDispose]();
    signal.throwIfAborted();
  }
  // The weights are loaded by the first step, which disposing the model ends.
  const end = (): void => void model[Symbol.asyncDispose]();
  signal.addEventListener("abort", end, { once: true });
  try {
    return await computeFirstToken(model, onStart);
  } finally {
    signal.removeEventListener("abort", end);
  }
}

function runningServer(
  parts: Parts,
  urls: ServerAddresses,
  ready: Promise<void>,
  { host = DEFAULT_HOST, apiKeys = [] }: ServerSettings,
): RunningServer {
  let stopped: Promise<void> | undefined;
  const stop = (timeoutMs: number): Promise<void> => (stopped ??= takeApart(parts, timeoutMs));
  return {
    ...urls,
    ready,
    isOpenToAll: !isLoopback(host) && apiKeys.length === 0,
    models: () => parts.pool.list(),
    stop,
    [Symbol.asyncDispose]: () => stop(0),
  };
}

async function listen(
  server: Server,
  { host = DEFAULT_HOST, port = DEFAULT_PORT, ollamaPort }: ServerSettings,
): Promise<ServerAddresses> {
  const url = await explained(server.listen(), { option: "port", port, host });
  // The same port of localhost is the server's own already.
  if (ollamaPort === undefined || (ollamaPort !== 0 && url.endsWith(`:${ollamaPort}`)))
    return { url, ollamaUrl: undefined };
  const target = { option: "ollamaPort", port: ollamaPort, host: DEFAULT_HOST };
  return { url, ollamaUrl: await explained(server.listenLocally(ollamaPort), target) };
}

interface ListenTarget {
  readonly option: string;
  readonly port: number;
  readonly host: string;
}

/** The address; a port or a host that cannot be listened on is refused by the name of its option. */
async function explained(listening: Promise<string>, { option, port, host }: ListenTarget): Promise<string> {
  try {
    return await listening;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    switch (code) {
      case "EADDRINUSE":
        return refuseValue("server", option, "one that is free", `${port}, which another program listens on`);
      case "EACCES":
        return refuseValue("server", option, "one that this user may listen on", String(port));
      case "EADDRNOTAVAIL":
      case "ENOTFOUND":
      case "EAI_AGAIN":
        return refuseValue("server", "host", "an address of this machine", host);
      default:
        throw error;
    }
  }
}
