// The options of a server on the command line, and how they map to the library's.

import { DEFAULT_QUEUED, DEFAULT_SEQUENCES } from "../../engine/serving-options.js";
import { LOG_FORMATS } from "../../log/log-format.js";
import { standardErrorLog } from "../../log/standard-streams.js";
import type { LogLevel, ServeOptions } from "../../server/index.js";
import { DRAFT_OPTIONS } from "../draft-options.js";
import { GENERAL_OPTIONS, loadOptions, MODEL_OPTIONS } from "../model-options.js";
import { type OptionTable, type OptionValues, wrongValue } from "../option-table.js";
import type { Progress } from "../progress.js";
import { API_KEYS_VARIABLE } from "./api-keys.js";

/** The port that `serve` and `run` listen on unless another is given. */
export const DEFAULT_SERVE_PORT = 8080;
/** How long in-flight requests may take after a signal, unless another time is given. */
export const DEFAULT_DRAIN_SECONDS = 30;
const MS_PER_MINUTE = 60_000;
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

const LOG_LEVELS = [
  "silent",
  "fatal",
  "error",
  "warn",
  "info",
  "debug",
  "trace",
] as const satisfies readonly LogLevel[];

/** The options of `serve`. */
export const SERVE_OPTIONS = {
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
    fallback: DEFAULT_SERVE_PORT,
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
    values: LOG_LEVELS,
    description: "silent, fatal, error, warn, info, debug or trace; the log goes to stderr",
    fallback: "info",
  },
  "log-format": {
    kind: "text",
    placeholder: "FORMAT",
    section: SERVER,
    values: LOG_FORMATS,
    description: "pretty, a line for each event; json; or auto, which is pretty on a terminal",
    fallback: "auto",
  },
  "no-page": { kind: "flag", section: SERVER, description: "do not answer / with the chat page" },
  "log-prompts": { kind: "flag", section: SERVER, description: "write the text of prompts to the log" },
  "max-concurrent": limit("COUNT", "sequences per batch of a model", `${DEFAULT_SEQUENCES}; on GPUs up to 256`),
  "max-queue": limit("COUNT", "requests that may wait in a model's queue; more are refused", DEFAULT_QUEUED),
  "state-cache-slots": limit(
    "COUNT",
    "checkpoints that a model with recurrent layers keeps for prompts with the same prefix",
    "an eighth of the free memory",
  ),
  "max-body": limit("BYTES", "size of a request body", "8 MiB"),
  "max-receiving": limit("BYTES", "size of all request bodies that are being received; more are refused", "256 MiB"),
  "max-prompt-tokens": limit("TOKENS", "length of a prompt", "the context length"),
  "max-stored": {
    ...limit("COUNT", "responses of /v1/responses stored for later requests; 0 stores none", 1024),
    range: { from: 0, to: LARGEST_COUNT },
  },
  ...MODEL_OPTIONS,
  ...DRAFT_OPTIONS,
  model: {
    ...MODEL_OPTIONS.model,
    kind: "list",
    description:
      "GGUF file, hf:user/repo[:quant], https://… or ollama:name:tag; NAME=MODEL sets the name that requests use (repeatable); the first is loaded at once",
  },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The values of `SERVE_OPTIONS`. */
export type ServeValues = OptionValues<typeof SERVE_OPTIONS>;

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

/** Refuses a log level that does not exist. */
export function checkLogLevel(command: string, level: string | undefined): void {
  if (level !== undefined && !LOG_LEVELS.some((known) => known === level))
    throw wrongValue(command, "log-level", LOG_LEVELS.join(", "), level);
}

/** The port for clients of Ollama; undefined if there is none. */
export function ollamaPortOf(values: Pick<ServeValues, "ollama" | "ollama-port">): number | undefined {
  return values["ollama-port"] ?? (values.ollama ? OLLAMA_PORT : undefined);
}

/** The options that were given; the others are left out. */
export function serveOptions(values: ServeValues, progress: Pick<Progress, "update">): Omit<ServeOptions, "models"> {
  const { "idle-minutes": idleMinutes, "max-concurrent": sequences, "max-queue": queue } = values;
  const { "state-cache-slots": stateCacheSlots } = values;
  const ollamaPort = ollamaPortOf(values);
  return {
    model: loadOptions(values, progress),
    warmUp: !values["no-warm-up"],
    onWarmUp: ({ done, steps }) => progress.update(`warming up, ${done} of ${steps} steps`),
    serving: {
      ...(sequences === undefined ? {} : { maxSequences: sequences }),
      ...(queue === undefined ? {} : { maxQueued: queue }),
      ...(stateCacheSlots === undefined ? {} : { stateCacheSlots }),
    },
    ...(idleMinutes === undefined ? {} : { idleTimeoutMs: Math.ceil(idleMinutes * MS_PER_MINUTE) }),
    ...(values.host === undefined ? {} : { host: values.host }),
    ...(values.port === undefined ? {} : { port: values.port }),
    ...(ollamaPort === undefined ? {} : { ollamaPort }),
    corsOrigins: values.cors,
    ...(values["allowed-host"].length === 0 ? {} : { allowedHosts: values["allowed-host"] }),
    strict: values.strict,
    ...(values["log-level"] === undefined
      ? {}
      : { logLevel: values["log-level"] as NonNullable<ServeOptions["logLevel"]> }),
    logDestination: standardErrorLog(),
    page: !values["no-page"],
    logPrompts: values["log-prompts"],
    limits: serverLimits(values),
  };
}

function serverLimits(values: ServeValues): NonNullable<ServeOptions["limits"]> {
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
