// Options of an engine, checked once.

import { optionalCount, optionalFlag, refuseUnknownKeys } from "../options.js";
import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";
import { MAX_DELAY_MS } from "./completion-request.js";

/** As many as an ordinary server has busy clients; the steps of a backend may hold fewer. */
export const DEFAULT_SEQUENCES = 64;
export const MAX_SEQUENCES = 4096;
export const DEFAULT_QUEUED = 256;
export const MAX_QUEUED = 1_000_000;
/** A mask takes milliseconds: a constraint that takes this long is stuck. */
const DEFAULT_CONSTRAINT_TIMEOUT_MS = 10_000;

/** How a model serves many requests at once: sequences, queue, KV cache and limits. */
export interface ServingOptions {
  /** Sequences that run at once, 64 by default; fewer if the steps of the backend hold fewer. */
  readonly maxSequences?: number;
  /** Requests that may wait, 256 by default; more are refused. */
  readonly maxQueued?: number;
  /**
   * Positions of the KV cache that all sequences share; by default what they can use, and at most half of the free
   * memory.
   */
  readonly kvCacheTokens?: number;
  /** Whether prompts with a common prefix compute it once; true by default. */
  readonly sharesPrefixes?: boolean;
  /** How long a constraint may take to compute one mask. */
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
      optionalCount("serve", "constraintTimeoutMs", options.constraintTimeoutMs, 1, MAX_DELAY_MS) ??
      DEFAULT_CONSTRAINT_TIMEOUT_MS,
  };
}
