// The options of a server, resolved once: misspelt names and impossible values are refused before it listens.

import type { ModelPool } from "../../engine/serving.js";
import type { LogDestination } from "../../log/bounded-log.js";
import { optionalCount, optionalFlag, refuseUnknownKeys, refuseValue, textList } from "../../options.js";
import { resolveSamplerOptions, type SamplerOptions } from "../../sampler/options.js";
import { type AccessRules, isLoopback, LOOPBACK_HOSTS } from "../http/access.js";
import { resolveLimits, type ServerLimits } from "../http/limits.js";
import type { Readiness } from "../http/readiness.js";
import type { ChatRenderService, GrammarService } from "../../completion/services.js";

/** Levels of the log, as pino names them. */
const LOG_LEVELS = ["silent", "fatal", "error", "warn", "info", "debug", "trace"] as const;
/** A level of the server's log. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Options of the HTTP server that `serve` passes on: address, keys, CORS, log, limits. */
export interface ServerSettings {
  /** Address to listen on; localhost by default. */
  readonly host?: string;
  /** Port to listen on, 8080 by default; 0 chooses a free one. */
  readonly port?: number;
  /**
   * Also listens on this port of localhost, where clients of Ollama look for a server (11434 is Ollama's own); by default
   * on none.
   */
  readonly ollamaPort?: number;
  /** API keys, any of which gives access; if empty, no key is needed. */
  readonly apiKeys?: readonly string[];
  /** Origins of web pages that may read responses; "*" allows all, none by default. */
  readonly corsOrigins?: readonly string[];
  /**
   * Host names that requests may be addressed to. By default the names of localhost if the server listens there,
   * otherwise any.
   */
  readonly allowedHosts?: readonly string[];
  /**
   * Whether unknown fields are refused, which are otherwise ignored and logged, and unknown model names, which a single
   * model otherwise answers to.
   */
  readonly strict?: boolean;
  /** Log level; "info" by default if there is a destination, otherwise "silent". */
  readonly logLevel?: LogLevel;
  /**
   * Destination of the log, one line of JSON at a time; writing must not block. Standard error by default, once a level
   * is given.
   */
  readonly logDestination?: LogDestination;
  /** Whether browsers get the chat page at `/`; true by default. */
  readonly page?: boolean;
  /** Whether the text of prompts is logged. */
  readonly logPrompts?: boolean;
  /** Sampling defaults of requests; they win over those that a model's file recommends. */
  readonly sampling?: Partial<SamplerOptions>;
  /** Limits on requests and responses; each has a default. */
  readonly limits?: Partial<ServerLimits>;
}

/** The options of an HTTP server. */
export interface ServerOptions extends ServerSettings {
  /** Owned by the caller: stopping the server does not dispose it. */
  readonly pool: ModelPool;
  readonly chat: ChatRenderService;
  readonly grammar: GrammarService;
  /** The status that /health reports; "ok" by default. */
  readonly readiness?: Pick<Readiness, "status">;
}

/** The options with all defaults filled in. */
export interface ResolvedServerOptions {
  readonly pool: ModelPool;
  readonly chat: ChatRenderService;
  readonly grammar: GrammarService;
  readonly readiness: Pick<Readiness, "status">;
  readonly host: string;
  readonly port: number;
  readonly ollamaPort: number | undefined;
  readonly access: AccessRules;
  readonly strict: boolean;
  readonly logLevel: LogLevel;
  readonly logDestination: LogDestination | undefined;
  readonly page: boolean;
  readonly logPrompts: boolean;
  readonly sampling: Partial<SamplerOptions>;
  readonly limits: ServerLimits;
}

/** The address that a server listens on by default: this machine only. */
export const DEFAULT_HOST = "127.0.0.1";
/** The port that a server listens on by default. */
export const DEFAULT_PORT = 8080;
const LARGEST_PORT = 65_535;
/** Shorter keys can be guessed. */
const SHORTEST_KEY_CHARACTERS = 8;

const OPTION_NAMES = [
  "pool",
  "chat",
  "grammar",
  "readiness",
  "host",
  "port",
  "ollamaPort",
  "apiKeys",
  "corsOrigins",
  "allowedHosts",
  "strict",
  "logLevel",
  "logDestination",
  "page",
  "logPrompts",
  "sampling",
  "limits",
] as const satisfies readonly (keyof ServerOptions)[];

/** Checks the options and fills in defaults. */
export function resolveServerOptions(options: ServerOptions): ResolvedServerOptions {
  refuseUnknownKeys("server", options, OPTION_NAMES);
  const host = options.host ?? DEFAULT_HOST;
  if (typeof host !== "string" || host === "") refuseValue("server", "host", "a name or an address", host);
  // A program that uses this library owns its standard error.
  const level = options.logLevel ?? (options.logDestination === undefined ? "silent" : "info");
  if (!LOG_LEVELS.includes(level)) refuseValue("server", "logLevel", LOG_LEVELS.join(", "), level);
  const ollamaPort = optionalCount("server", "ollamaPort", options.ollamaPort, 0, LARGEST_PORT);
  const sampling = { ...options.sampling };
  // Checked here, so that a wrong default does not fail every request.
  resolveSamplerOptions(sampling);
  return {
    pool: options.pool,
    chat: options.chat,
    grammar: options.grammar,
    readiness: options.readiness ?? { status: "ok" },
    host,
    port: optionalCount("server", "port", options.port, 0, LARGEST_PORT) ?? DEFAULT_PORT,
    ollamaPort,
    access: {
      apiKeys: keysOf(options.apiKeys ?? []),
      corsOrigins: originsOf(options.corsOrigins ?? []),
      allowedHosts: hostsOf(options.allowedHosts, host, ollamaPort !== undefined),
    },
    strict: optionalFlag("server", "strict", options.strict) ?? false,
    logLevel: level,
    logDestination: options.logDestination,
    page: optionalFlag("server", "page", options.page) ?? true,
    logPrompts: optionalFlag("server", "logPrompts", options.logPrompts) ?? false,
    sampling,
    limits: resolveLimits(options.limits ?? {}),
  };
}

/** Keys are secrets, which error messages never show. */
function keysOf(keys: unknown): readonly string[] {
  const valid =
    Array.isArray(keys) &&
    keys.every(
      (key) => typeof key === "string" && new RegExp(`^[\\x21-\\x7e]{${SHORTEST_KEY_CHARACTERS},}$`).test(key),
    );
  if (valid) return keys as string[];
  return refuseValue(
    "server",
    "apiKeys",
    `keys of at least ${SHORTEST_KEY_CHARACTERS} printable characters without spaces`,
    "a key that is not one",
  );
}

function originsOf(origins: unknown): readonly string[] {
  for (const origin of textList("server", "corsOrigins", origins)) {
    if (origin !== "*" && !(URL.canParse(origin) && new URL(origin).origin === origin)) {
      refuseValue("server", "corsOrigins", `"*" or an origin such as https://example.com`, origin);
    }
  }
  return origins as readonly string[];
}

/** A server that also listens on localhost is always addressed by localhost's names there. */
function hostsOf(allowed: readonly string[] | undefined, host: string, isLocalToo: boolean): readonly string[] {
  const names = textList("server", "allowedHosts", allowed ?? []).map((name) => name.toLowerCase());
  if (names.length > 0 && isLocalToo) return [...new Set([...names, ...LOOPBACK_HOSTS])];
  if (allowed !== undefined) return names;
  return isLoopback(host) ? LOOPBACK_HOSTS : [];
}
