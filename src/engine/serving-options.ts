// What a caller may choose about serving a model, checked once.

import { optionalCount, optionalFlag, refuseUnknownKeys } from "../options.js";
import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";

/** As many as an ordinary server has busy clients; a backend's steps may hold fewer. */
export const DEFAULT_SEQUENCES = 64;
const MAX_SEQUENCES = 4096;
export const DEFAULT_QUEUED = 256;
const MAX_QUEUED = 1_000_000;
/** A mask takes milliseconds; whoever takes so long is lost. */
const DEFAULT_CONSTRAINT_TIMEOUT_MS = 10_000;
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export interface ServingOptions {
  /** Sequences that run at once; fewer where the backend's steps hold fewer. */
  readonly maxSequences?: number;
  /** Requests that wait; more are refused. */
  readonly maxQueued?: number;
  /** Positions of the KV cache that all sequences share; by default what they can use, and at most half of the free memory. */
  readonly kvCacheTokens?: number;
  /** Computes once what prompts have in common at their beginning; true by default. */
  readonly sharesPrefixes?: boolean;
  /** How long a constraint may take over one token. */
  readonly constraintTimeoutMs?: number;
}

export type ResolvedServingOptions = Required<Omit<ServingOptions, "kvCacheTokens">> &
  Pick<ServingOptions, "kvCacheTokens">;

const NAMES = [
  "maxSequences",
  "maxQueued",
  "kvCacheTokens",
  "sharesPrefixes",
  "constraintTimeoutMs",
] as const satisfies readonly (keyof ServingOptions)[];

export function resolveServingOptions(options: ServingOptions): ResolvedServingOptions {
  refuseUnknownKeys("serve", options, NAMES);
  const kvCacheTokens = optionalCount("serve", "kvCacheTokens", options.kvCacheTokens, 1, MAX_CONTEXT_TOKENS);
  return {
    maxSequences: optionalCount("serve", "maxSequences", options.maxSequences, 1, MAX_SEQUENCES) ?? DEFAULT_SEQUENCES,
    maxQueued: optionalCount("serve", "maxQueued", options.maxQueued, 1, MAX_QUEUED) ?? DEFAULT_QUEUED,
    ...(kvCacheTokens === undefined ? {} : { kvCacheTokens }),
    sharesPrefixes: optionalFlag("serve", "sharesPrefixes", options.sharesPrefixes) ?? true,
    constraintTimeoutMs:
      optionalCount("serve", "constraintTimeoutMs", options.constraintTimeoutMs, 1, MAX_TIMEOUT_MS) ??
      DEFAULT_CONSTRAINT_TIMEOUT_MS,
  };
}
