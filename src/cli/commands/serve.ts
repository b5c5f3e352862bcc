// `rocmforge serve`: serves models over HTTP with OpenAI-compatible endpoints, until a signal stops it.

import { isatty } from "node:tty";
import { DEFAULT_QUEUED, DEFAULT_SEQUENCES } from "../../engine/serving-options.js";
import { type RunningServer, serve as startServing, type ServeOptions } from "../../server/index.js";
import { flushStandardLogs, standardErrorLog, standardOutputLog } from "../../log/standard-streams.js";
import { defineCommand } from "../command.js";
import { formatDuration, printable } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { namedModel } from "../model-file.js";
import { EMBEDDED_MODEL, GENERAL_OPTIONS, loadOptions, MODEL_OPTIONS } from "../model-options.js";
import type { OptionTable, OptionValues } from "../option-table.js";
import { Progress } from "../progress.js";
import { API_KEYS_VARIABLE, readApiKeys } from "../serve/api-keys.js";
import { greetingText } from "../serve/greeting.js";
import { modelList, splitModelValue } from "../serve/model-list.js";

const NAME = "serve";
const MS_PER_SECOND = 1000;
const MS_PER_MINUTE = 60_000;
const DEFAULT_DRAIN_SECONDS = 30;
/** How long the process waits for the last log lines to be read after the server has stopped. */
const LAST_LINES_MS = 500;
const LARGEST_COUNT = 2 ** 31 - 1;
/** The longest idle time: longer ones do not fit a timer. */
const LONGEST_IDLE_MINUTES = 10_000;
const LONGEST_DRAIN_SECONDS = 86_400;

/** The port of Ollama itself. */
const OLLAMA_PORT = 11_434;

const SERVER = "server";
const LIMITS = "limit";

/** Connections for requests that need no model, such as /health. */
const SPARE_CONNECTIONS = 768;

const OPTIONS = {
  host: {
    kind: "text",
    placeholder: "ADDRESS",
    section: SERVER,
    description: "address to listen on; 0.0.0.0 is all network interfaces",
    fallback: "127.0.0.1, localhost only",
  },
  port: {
    kind: "count",
    placeholder: "NUMBER",
    section: SERVER,
    range: { from: 0, to: 65_535 },
    description: "port to listen on; 0 chooses a free one",
    fallback: 8080,
  },
  ollama: {
    kind: "flag",
    section: SERVER,
    description: "also listen where clients of Ollama look for a server, on 127.0.0.1:11434",
  },
  "ollama-port": {
    kind: "count",
    placeholder: "NUMBER",
    section: SERVER,
    range: { from: 0, to: 65_535 },
    description: "as --ollama, on another port",
    fallback: "none",
  },
  "api-key-file": {
    kind: "path",
    placeholder: "FILE",
    section: SERVER,
    description: `API keys that clients need, one per line; ${API_KEYS_VARIABLE} may contain more`,
  },
  cors: {
    kind: "list",
    placeholder: "ORIGIN",
    section: SERVER,
    description: "CORS: origin of web pages that may read responses; * is all (repeatable)",
    fallback: "none",
  },
  "allowed-host": {
    kind: "list",
    placeholder: "NAME",
    section: SERVER,
    description: "host name that requests may use (repeatable)",
    fallback: "localhost's names if the server listens there, otherwise any",
  },
  strict: {
    kind: "flag",
    section: SERVER,
    description: "refuse unknown fields and model names instead of ignoring them",
  },
  "idle-minutes": {
    kind: "number",
    placeholder: "NUMBER",
    section: SERVER,
    range: { from: 0, to: LONGEST_IDLE_MINUTES, above: true },
    description: "unload a model after this time without requests",
    fallback: "never",
  },
  "no-warm-up": {
    kind: "flag",
    section: SERVER,
    description:
      "be ready as soon as the first model is loaded; the first requests then wait for kernels, BLAS plans and graphs",
  },
  "drain-seconds": {
    kind: "number",
    placeholder: "NUMBER",
    section: SERVER,
    range: { from: 0, to: LONGEST_DRAIN_SECONDS },
    description: "how long in-flight requests may take after SIGTERM",
    fallback: DEFAULT_DRAIN_SECONDS,
  },
  "log-level": {
    kind: "text",
    placeholder: "LEVEL",
    section: SERVER,
    description:
      "silent, fatal, error, warn, info, debug or trace; the log goes to stderr, as JSON unless that is a terminal",
    fallback: "info",
  },
  "no-page": { kind: "flag", section: SERVER, description: "do not answer / with the chat page" },
  "log-prompts": { kind: "flag", section: SERVER, description: "write the text of prompts to the log" },
  "max-concurrent": limit("COUNT", "sequences per batch of a model", DEFAULT_SEQUENCES),
  "max-queue": limit("COUNT", "requests that may wait in a model's queue; more are refused", DEFAULT_QUEUED),
  "max-body": limit("BYTES", "size of a request body", "8 MiB"),
  "max-receiving": limit("BYTES", "size of all request bodies that are being received; more are refused", "256 MiB"),
  "max-prompt-tokens": limit("TOKENS", "length of a prompt", "the context length"),
  "max-stored": {
    ...limit("COUNT", "responses of /v1/responses stored for later requests; 0 stores none", 1024),
    range: { from: 0, to: LARGEST_COUNT },
  },
  ...MODEL_OPTIONS,
  model: {
    ...MODEL_OPTIONS.model,
    kind: "list",
    description:
      "GGUF file, hf:user/repo[:quant], https://… or ollama:name:tag; NAME=MODEL sets the name that requests use (repeatable); the first is loaded at once",
  },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

type Values = OptionValues<typeof OPTIONS>;

/** The command `serve`. */
export const serve = defineCommand({
  name: NAME,
  summary: "serves models over HTTP with OpenAI-compatible endpoints",
  about: [
    "Clients of OpenAI's, Anthropic's and Ollama's APIs work unchanged: /v1/chat/completions, /v1/completions,",
    "/v1/embeddings, /v1/responses, /v1/messages, /api/chat and the rest of /api; /openapi.json describes everything.",
    "Concurrent requests are batched. The first SIGTERM or Ctrl-C refuses new requests and waits for in-flight ones; the",
    "second exits at once.",
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "a model on localhost", line: "rocmforge serve -m model.gguf" },
    {
      what: "two models under other names, on all interfaces, with API keys",
      line: "rocmforge serve -m small=a.gguf -m large=b.gguf --host 0.0.0.0 --api-key-file keys.txt",
    },
  ],
  async run(values) {
    try {
      return await serveUntilStopped(values);
    } finally {
      await flushStandardLogs(LAST_LINES_MS);
      // An unread pipe must not keep the process alive after the server has stopped.
      setTimeout(() => process.exit(), LAST_LINES_MS).unref();
    }
  },
});

async function serveUntilStopped(values: Values): Promise<number> {
  const log = standardErrorLog();
  const say = (text: string): void => log.write(`rocmforge: ${text}\n`);
  redirectWarnings(say);
  const models = modelList(NAME, await servedFiles(values), EMBEDDED_MODEL);
  const apiKeys = await readApiKeys(NAME, values["api-key-file"], process.env);
  using interrupt = new Interrupt({ ignoresEchoes: true });
  using progress = new Progress(`loading ${printable(models[0].name)}`, {
    isTTY: isatty(process.stderr.fd),
    write: (text) => log.write(text),
  });
  await using server = await unlessInterrupted(
    startServing({ ...serveOptions(values, progress), models, apiKeys, signal: interrupt.signal }),
    interrupt.signal,
  );
  if (server !== undefined) await Promise.race([server.ready, aborted(interrupt.signal)]);
  progress.end();
  if (server === undefined) {
    say("stopped before the model was loaded");
    return 0;
  }
  if (server.isOpenToAll)
    say(`everyone who can reach ${server.url} may use it; --api-key-file or ${API_KEYS_VARIABLE} requires a key`);
  // If the server was interrupted before it was ready, it prints no greeting.
  if (!interrupt.signal.aborted)
    standardOutputLog().write(
      greetingText({ ...addresses(server), needsKey: apiKeys.length > 0, hasPage: !values["no-page"] }),
    );
  await aborted(interrupt.signal);
  const drainMs = (values["drain-seconds"] ?? DEFAULT_DRAIN_SECONDS) * MS_PER_SECOND;
  say(`stopping; in-flight requests have ${formatDuration(drainMs)} to finish`);
  await server.stop(drainMs);
  return 0;
}

function addresses({ url, ollamaUrl, models }: RunningServer) {
  return { url, ollamaUrl, models: models() };
}

/** The values of -m with files instead of names; what is not on this machine is downloaded before the server starts. */
async function servedFiles(values: Values): Promise<readonly string[]> {
  const files: string[] = [];
  for (const value of values.model) {
    const { name, model } = splitModelValue(value);
    const { path, label } = await namedModel(model, { ...values, model });
    files.push(label === "" ? value : `${name ?? label}=${path}`);
  }
  return files;
}

/** Redirects Node's warnings, which it would write to standard error in a way that blocks. */
function redirectWarnings(say: (text: string) => void): void {
  if (process.listenerCount("warning") === 0) return;
  process.removeAllListeners("warning").on("warning", ({ name, message }) => say(printable(`${name}: ${message}`)));
}

function limit<const Placeholder extends string>(
  placeholder: Placeholder,
  description: string,
  fallback: string | number,
) {
  return {
    kind: "count",
    placeholder,
    section: LIMITS,
    range: { from: 1, to: LARGEST_COUNT },
    description,
    fallback,
  } as const;
}

/** The options that were given; the others are left out. */
function serveOptions(values: Values, progress: Pick<Progress, "update">): Omit<ServeOptions, "models"> {
  const { "idle-minutes": idleMinutes, "max-concurrent": sequences, "max-queue": queue } = values;
  const ollamaPort = values["ollama-port"] ?? (values.ollama ? OLLAMA_PORT : undefined);
  return {
    model: loadOptions(values, progress),
    warmUp: !values["no-warm-up"],
    onWarmUp: ({ done, steps }) => progress.update(`warming up, ${done} of ${steps} steps`),
    serving: {
      ...(sequences === undefined ? {} : { maxSequences: sequences }),
      ...(queue === undefined ? {} : { maxQueued: queue }),
    },
    ...(idleMinutes === undefined ? {} : { idleTimeoutMs: Math.ceil(idleMinutes * MS_PER_MINUTE) }),
    ...(values.host === undefined ? {} : { host: values.host }),
    ...(values.port === undefined ? {} : { port: values.port }),
    ...(ollamaPort === undefined ? {} : { ollamaPort }),
    corsOrigins: values.cors,
    ...(values["allowed-host"].length === 0 ? {} : { allowedHosts: values["allowed-host"] }),
    strict: values.strict,
    // The server checks whether the level exists.
    ...(values["log-level"] === undefined
      ? {}
      : { logLevel: values["log-level"] as NonNullable<ServeOptions["logLevel"]> }),
    logDestination: standardErrorLog(),
    page: !values["no-page"],
    logPrompts: values["log-prompts"],
    limits: serverLimits(values),
  };
}

function serverLimits(values: Values): NonNullable<ServeOptions["limits"]> {
  const {
    "max-body": bodyBytes,
    "max-receiving": receivingBytes,
    "max-prompt-tokens": promptTokens,
    "max-stored": storedResponses,
  } = values;
  // Requests that run or wait in the queue are admitted first.
  const requests = (values["max-concurrent"] ?? DEFAULT_SEQUENCES) + (values["max-queue"] ?? DEFAULT_QUEUED);
  return {
    concurrentRequests: Math.min(requests, LARGEST_COUNT),
    connections: Math.min(requests + SPARE_CONNECTIONS, LARGEST_COUNT),
    ...(bodyBytes === undefined ? {} : { bodyBytes, promptCharacters: bodyBytes }),
    ...(receivingBytes === undefined ? {} : { receivingBytes }),
    ...(promptTokens === undefined ? {} : { promptTokens }),
    ...(storedResponses === undefined ? {} : { storedResponses }),
  };
}

/** The result, or undefined if the signal came first. */
async function unlessInterrupted(
  starting: ReturnType<typeof startServing>,
  signal: AbortSignal,
): Promise<Awaited<typeof starting> | undefined> {
  try {
    return await starting;
  } catch (error) {
    if (signal.aborted && error === signal.reason) return undefined;
    throw error;
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
