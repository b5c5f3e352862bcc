// Options of a plan, checked once.

import type { HyperParameters } from "../architectures/descriptor.js";
import type { Backend, KvCacheType } from "../backends/contract.js";
import { optionalCount, optionalFlag, refuseUnknownKeys, refuseValue } from "../options.js";

/** Positions per KV block: small enough to waste little, large enough to keep tables short. */
const DEFAULT_BLOCK_TOKENS = 32;
const MAX_BLOCK_TOKENS = 4096;
/** Models state contexts of 128k and more, whose KV cache would fill the memory of most machines. */
const DEFAULT_MAX_CONTEXT_TOKENS = 4096;
/** Far above any published model; keeps sizes exact integers. */
export const MAX_CONTEXT_TOKENS = 2 ** 24;

const KV_CACHE_TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];

/** Options of a plan. */
export interface PlanConfig {
  /** Context length; by default the model's own, but at most 4,096. */
  readonly contextTokens?: number;
  readonly blockTokens?: number;
  readonly kvCacheType?: KvCacheType;
  /** Attempts allocations that seem too large: drivers of integrated GPUs report less memory than they have. */
  readonly ignoreMemoryCheck?: boolean;
  /**
   * Whether the model's draft head (MTP) can be run, false by default; refused if the model has none. "auto": if the model
   * has recurrent layers and a head that the backend can run. Without them the head would cost the prefix cache more
   * than it brings: prefixes are then reused up to checkpoints only.
   */
  readonly draftHead?: boolean | "auto";
}

/** Checks a plan's options and fills in defaults. */
export function resolvePlanConfig(
  config: PlanConfig,
  parameters: HyperParameters,
  backend: Backend,
): Required<PlanConfig> {
  refuseUnknownKeys("plan", config, ["contextTokens", "blockTokens", "kvCacheType", "ignoreMemoryCheck", "draftHead"]);
  const { kvCacheType = backend.defaultKvCacheType } = config;
  if (!KV_CACHE_TYPES.includes(kvCacheType)) {
    refuseValue("plan", "kvCacheType", `one of ${KV_CACHE_TYPES.join(", ")}`, kvCacheType);
  }
  return {
    contextTokens:
      optionalCount("plan", "contextTokens", config.contextTokens, 1, MAX_CONTEXT_TOKENS) ??
      Math.min(parameters.contextLength, DEFAULT_MAX_CONTEXT_TOKENS),
    blockTokens: optionalCount("plan", "blockTokens", config.blockTokens, 1, MAX_BLOCK_TOKENS) ?? DEFAULT_BLOCK_TOKENS,
    kvCacheType,
    ignoreMemoryCheck: optionalFlag("plan", "ignoreMemoryCheck", config.ignoreMemoryCheck) ?? false,
    draftHead: config.draftHead === "auto" ? "auto" : (optionalFlag("plan", "draftHead", config.draftHead) ?? false),
  };
}
