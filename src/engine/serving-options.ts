// Options of an engine, checked once.

import { optionalCount, optionalFlag, refuseUnknownKeys } from "../options.js";
import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";
import { MAX_DELAY_MS } from "./completion-request.js";

/** Default of `maxSequences` where the backend names none: the busy clients of an ordinary server. */
export const DEFAULT_SEQUENCES = 64;
/** Upper bound of `maxSequences`. */
export const MAX_SEQUENCES = 4096;
/** Default of `maxQueued`. */
export const DEFAULT_QUEUED = 256;
/** Upper bound of `maxQueued`. */
export const MAX_QUEUED = 1_000_000;
/** A mask takes milliseconds: a constraint that takes this long is stuck. */
const DEFAULT_CONSTRAINT_TIMEOUT_MS = 10_000;

/** Slot numbers are 32-bit, and no memory holds this many. */
const MAX_STATE_SLOTS = 1_000_000;

/** How a model serves concurrent requests: sequences, queue, KV cache and limits. */
export interface ServingOptions {
  /**
   * Maximum number of sequences in a batch; by default 64, on GPUs with 20 GiB and more 128, with 64 GiB and more 256. Fewer
   * if the backend's steps hold fewer.
   */
  readonly maxSequences?: number;
  /** Maximum number of queued requests, 256 by default; more are refused. */
  readonly maxQueued?: number;
  /**
   * Positions of the KV cache that all sequences share; by default as many as they can use, within half of the free
   * memory.
   */
  readonly kvCacheTokens?: number;
  /**
   * State slots for checkpoints of models with recurrent layers, beside one for each sequence; by default as many as are
   * useful, within an eighth of the free memory.
   */
  readonly stateCacheSlots?: number;
  /** Whether a prefix that several prompts share is computed once; true by default. */
  readonly sharesPrefixes?: boolean;
  /** Time limit for computing one logit mask. */
  readonly constraintTimeoutMs?: number;
}

/** Serving options with defaults filled in. */
export type ResolvedServingOptions = Required<
  Omit<ServingOptions, "maxSequences" | "kvCacheTokens" | "stateCacheSlots">
> &
  Pick<ServingOptions, "maxSequences" | "kvCacheTokens" | "stateCacheSlots">;

const NAMES = [
  "maxSequences",
  "maxQueued",
  "kvCacheTokens",
  "stateCacheSlots",
  "sharesPrefixes",
  "constraintTimeoutMs",
] as const satisfies readonly (keyof ServingOptions)[];

/** Checks serving options and fills in defaults. */
export function resolveServingOptions(options: ServingOptions): ResolvedServingOptions {
  refuseUnknownKeys("serve", options, NAMES);
  const kvCacheTokens = optionalCount("serve", "kvCacheTokens", options.kvCacheTokens, 1, MAX_CONTEXT_TOKENS);
  const stateCacheSlots = optionalCount("serve", "stateCacheSlots", options.stateCacheSlots, 1, MAX_STATE_SLOTS);
  const maxSequences = optionalCount("serve", "maxSequences", options.maxSequences, 1, MAX_SEQUENCES);
  return {
    ...(maxSequences === undefined ? {} : { maxSequences }),
    maxQueued: optionalCount("serve", "maxQueued", options.maxQueued, 1, MAX_QUEUED) ?? DEFAULT_QUEUED,
    ...(kvCacheTokens === undefined ? {} : { kvCacheTokens }),
    ...(stateCacheSlots === undefined ? {} : { stateCacheSlots }),
    sharesPrefixes: optionalFlag("serve", "sharesPrefixes", options.sharesPrefixes) ?? true,
    constraintTimeoutMs:
      optionalCount("serve", "constraintTimeoutMs", options.constraintTimeoutMs, 1, MAX_DELAY_MS) ??
      DEFAULT_CONSTRAINT_TIMEOUT_MS,
  };
}
