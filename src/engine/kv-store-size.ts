// Sizes of the shared KV cache: what the sequences could fill together, within a share of the memory that weights and
// scratch space leave. Sizes are positions of full attention; a sliding window has the blocks of its sequences.

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
  return Math.max(least, Math.min(usefulTokens(plan, sequences), affordableTokens(plan, MEMORY_SHARE, sequences)));
}

/**
 * Blocks of each cache group for `tokens` tokens of up to `sequences` sequences. Windows of fewer sequences, if those of
 * all do not fit: the others wait.
 */
export function fittingBlocks(plan: FittedPlan, tokens: number, sequences: number): readonly number[] {
  const spare = plan.config.ignoreMemoryCheck ? Number.POSITIVE_INFINITY : spareBytes(plan);
  let fitting = sequences;
  while (fitting > 1 && plan.kvCacheBytes(tokens, fitting) > spare) fitting--;
  return plan.kvCacheBlocks(tokens, fitting);
}

/**
 * Maximum number of tokens of a growing cache, in whole blocks. One whole context may take all of the memory, further
 * sequences only their share. Throws BACKEND_MEMORY if not even one block fits.
 */
export function cacheLimitTokens(plan: FittedPlan, sequences: number): number {
  const { contextTokens, blockTokens, ignoreMemoryCheck } = plan.config;
  const context = wholeBlocks(plan, contextTokens);
  refuseTooLarge(plan, blockTokens);
  const one = ignoreMemoryCheck ? context : Math.min(context, affordableTokens(plan, 1, 1));
  return Math.max(one, Math.min(usefulTokens(plan, sequences), affordableTokens(plan, MEMORY_SHARE, sequences)));
}

/** What the sequences can fill together. */
function usefulTokens(plan: FittedPlan, sequences: number): number {
  const { contextTokens, blockTokens } = plan.config;
  return Math.min(
    sequences * wholeBlocks(plan, contextTokens),
    Math.floor(MAX_CONTEXT_TOKENS / blockTokens) * blockTokens,
  );
}

/** The most tokens whose cache takes no more than this share of the spare memory. */
function affordableTokens(plan: FittedPlan, share: number, sequences: number): number {
  const { blockTokens } = plan.config;
  const bytes = spareBytes(plan) * share;
  let [fitting, tooMany] = [0, Math.floor(MAX_CONTEXT_TOKENS / blockTokens) + 1];
  while (tooMany - fitting > 1) {
    const blocks = Math.floor((fitting + tooMany) / 2);
    if (plan.kvCacheBytes(blocks * blockTokens, sequences) <= bytes) fitting = blocks;
    else tooMany = blocks;
  }
  return fitting * blockTokens;
}

function wholeBlocks({ config: { blockTokens } }: FittedPlan, tokens: number): number {
  return Math.ceil(tokens / blockTokens) * blockTokens;
}
