// How much one client may ask of the server: every limit is a named number with its reason, and an option.
// Invariant: whatever is sent, what it costs is bounded before the work begins.

import { optionalCount, refuseUnknownKeys } from "../../options.js";

export interface ServerLimits {
  /** Of a request's body: a million characters of prompt, each escaped, fit. */
  readonly bodyBytes: number;
  readonly headerBytes: number;
  /** Of arrays and objects in arrays and objects: JSON schemas are deep, and nobody's are this deep. */
  readonly jsonDepth: number;
  /** Of values in a body: a prompt as tokens has one for each. */
  readonly jsonValues: number;
  /** Of fields in one object. */
  readonly jsonMembers: number;
  /** Of all texts of a prompt together: turning text into tokens is work that others wait for. */
  readonly promptCharacters: number;
  /** Of a text for /tokenize: the longest prompts of the largest contexts. */
  readonly tokenizeCharacters: number;
  /** Of a list for /detokenize. */
  readonly detokenizeTokens: number;
  /** Of one prompt, where the model's context is longer. */
  readonly promptTokens: number;
  /** Of one answer, where the model's context is longer. */
  readonly outputTokens: number;
  /** The largest `n`. */
  readonly choices: number;
  /** Prompts or inputs in one request. */
  readonly prompts: number;
  readonly messages: number;
  /** In one message. */
  readonly contentParts: number;
  readonly tools: number;
  readonly stopStrings: number;
  readonly stopCharacters: number;
  readonly logitBiasEntries: number;
  /** Log-probabilities in one answer, rivals included: it ends at the token that would bring more. */
  readonly logprobEntries: number;
  /** Of regular expressions and grammars. */
  readonly grammarCharacters: number;
  /** Of bodies that are arriving, all together; a body that would bring more is answered with 429. One alone is always taken. */
  readonly receivingBytes: number;
  /** Requests at work, waiting ones included; one more is answered with 429. */
  readonly concurrentRequests: number;
  /** One more closes a connection that does nothing, those that never sent a byte first. */
  readonly connections: number;
  /** Beyond these, for checks of health, when all of them have a request under way. */
  readonly reservedConnections: number;
  /** For a request's headers to arrive, and for the first of them on a new connection. */
  readonly headersTimeoutMs: number;
  /** Responses stored for later requests; 0 stores none. */
  readonly storedResponses: number;
  /** Of all stored responses together, each counted with its whole conversation. */
  readonly storedResponseBytes: number;
  /** How long a response is stored. */
  readonly storedResponseMs: number;
  /** For a request to arrive whole. */
  readonly receiveTimeoutMs: number;
  /** For an answer to be written; what is there by then is sent. */
  readonly timeLimitMs: number;
  /** Of a stream that is written and not read: more is written when it is. */
  readonly unreadBytes: number;
  /** An answer of which nothing was read for so long is given up. */
  readonly unreadTimeoutMs: number;
  /** A stream that has nothing to say says so after this long, for the sake of proxies. */
  readonly keepAliveMs: number;
}

const LARGEST_COUNT = 2 ** 31 - 1;
/** A timer that is told to wait longer does not wait at all. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
const MIB = 2 ** 20;

export const DEFAULT_LIMITS: ServerLimits = Object.freeze({
  bodyBytes: 8 * MIB,
  headerBytes: 16_384,
  jsonDepth: 64,
  jsonValues: 2 ** 18,
  jsonMembers: 4096,
  promptCharacters: MIB,
  tokenizeCharacters: 2 ** 19,
  detokenizeTokens: 2 ** 17,
  promptTokens: LARGEST_COUNT,
  outputTokens: LARGEST_COUNT,
  choices: 16,
  prompts: 128,
  messages: 2048,
  contentParts: 1024,
  tools: 128,
  stopStrings: 16,
  stopCharacters: 1024,
  logitBiasEntries: 1024,
  logprobEntries: 2 ** 18,
  grammarCharacters: 2 ** 16,
  receivingBytes: 256 * MIB,
  concurrentRequests: 256,
  connections: 1024,
  reservedConnections: 32,
  headersTimeoutMs: 10_000,
  storedResponses: 1024,
  storedResponseBytes: 64 * MIB,
  storedResponseMs: 24 * 60 * 60 * 1000,
  receiveTimeoutMs: 60_000,
  timeLimitMs: 600_000,
  unreadBytes: 65_536,
  unreadTimeoutMs: 30_000,
  keepAliveMs: 10_000,
});

/** Smallest allowed values other than 1. */
const LEAST: Partial<Record<keyof ServerLimits, number>> = { storedResponses: 0 };

export function resolveLimits(limits: Partial<ServerLimits>): ServerLimits {
  refuseUnknownKeys("server.limits", limits, Object.keys(DEFAULT_LIMITS));
  const names = Object.keys(DEFAULT_LIMITS) as (keyof ServerLimits)[];
  const entries = names.map((name) => [
    name,
    optionalCount("server.limits", name, limits[name], LEAST[name] ?? 1, LARGEST_COUNT) ?? DEFAULT_LIMITS[name],
  ]);
  return Object.freeze(Object.fromEntries(entries) as ServerLimits);
}
