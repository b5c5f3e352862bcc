// Sizes of the shared KV cache: what the sequences could fill together, within a share of the memory that weights and
// scratch space leave.

import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";
import { type FittedPlan, refuseTooLarge, spareBytes } from "./plan-fit.js";

/** The rest is left for other models and programs. */
const MEMORY_SHARE = 0.5;

/**
 * Tokens of a cache that is allocated at once, in whole blocks: at least one whole context. Throws BACKEND_MEMORY if
 * not even that fits.
 */
export function fixedCacheTokens(plan: FittedPlan, sequences: number, wanted: number | undefined): number {
  const least = wholeBlocks(plan, wanted ?? plan.config.contextTokens);
  refuseTooLarge(plan, least);
  if (wanted !== undefined) return least;
  return Math.max(least, Math.min(usefulTokens(plan, sequences), affordableTokens(plan, MEMORY_SHARE)));
}

/**
 * Maximum number of tokens of a growing cache, in whole blocks. One whole context may take all of the memory, further
 * sequences only their share. Throws BACKEND_MEMORY if not even one block fits.
 */
export function cacheLimitTokens(plan: FittedPlan, sequences: number): number {
  const { contextTokens, blockTokens, ignoreMemoryCheck } = plan.config;
  const context = wholeBlocks(plan, contextTokens);
  refuseTooLarge(plan, blockTokens);
  const one = ignoreMemoryCheck ? context : Math.min(context, affordableTokens(plan, 1));
  return Math.max(one, Math.min(usefulTokens(plan, sequences), affordableTokens(plan, MEMORY_SHARE)));
}

/** What the sequences can fill together. */
function usefulTokens(plan: FittedPlan, sequences: number): number {
  const { contextTokens, blockTokens } = plan.config;
  return Math.min(
    sequences * wholeBlocks(plan, contextTokens),
    Math.floor(MAX_CONTEXT_TOKENS / blockTokens) * blockTokens,
  );
}

function affordableTokens(plan: FittedPlan, share: number): number {
  const { blockTokens } = plan.config;
  return Math.floor((spareBytes(plan) * share) / plan.kvCacheBytes(blockTokens)) * blockTokens;
}

function wholeBlocks({ config: { blockTokens } }: FittedPlan, tokens: number): number {
  return Math.ceil(tokens / blockTokens) * blockTokens;
}
