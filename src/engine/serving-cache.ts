// How large the cache is that all sequences of a served model share: what they could fill together, within a part of the
// memory that weights and scratch space leave, and at least one whole context.

import { BackendError } from "../errors.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";
import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";

/** The rest is left to another model, and to whatever else the machine does. */
const MEMORY_SHARE = 0.5;

/** What is asked of the plan. */
export type CachedPlan = Pick<ExecutionPlan, "config" | "backend" | "memory" | "loadingStats" | "kvCacheBytes">;

/** In tokens, whole blocks of them. Throws BACKEND_MEMORY where not even one context fits. */
export function servingCacheTokens(plan: CachedPlan, sequences: number, wanted: number | undefined): number {
  const { contextTokens, blockTokens } = plan.config;
  const wholeBlocks = (tokens: number): number => Math.ceil(tokens / blockTokens) * blockTokens;
  const freeBytes = freeBesideWeights(plan);
  const least = wholeBlocks(wanted ?? contextTokens);
  const leastBytes = plan.kvCacheBytes(least);
  if (leastBytes > freeBytes) throw tooSmall(plan, least, leastBytes, freeBytes);
  if (wanted !== undefined) return least;
  const affordable = Math.floor((freeBytes * MEMORY_SHARE) / (leastBytes / least) / blockTokens) * blockTokens;
  const useful = Math.min(sequences * wholeBlocks(contextTokens), Math.floor(MAX_CONTEXT_TOKENS / blockTokens) * blockTokens);
  return Math.max(least, Math.min(useful, affordable));
}

function freeBesideWeights(plan: CachedPlan): number {
  const { residentWeightBytes, scratchBytes } = plan.memory();
  const weightBytes = Math.max(0, residentWeightBytes - plan.loadingStats().cachedBytes);
  return Math.max(0, plan.backend.memory().availableBytes - weightBytes - scratchBytes);
}

function tooSmall(plan: CachedPlan, tokens: number, neededBytes: number, freeBytes: number): BackendError {
  const fits = Math.floor((tokens * freeBytes) / neededBytes);
  return new BackendError(
    "BACKEND_MEMORY",
    `[${plan.backend.description.name}] a KV cache of ${tokens} tokens needs ${neededBytes} bytes and ${freeBytes} are free beside the weights, ` +
      `enough for about ${fits} tokens; serve a smaller model or a smaller context`,
    { details: { tokens, neededBytes, freeBytes } },
  );
}
