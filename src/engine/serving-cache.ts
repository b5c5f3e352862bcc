// How large the cache is that all sequences of a served model share: what they could fill together, within a part of the
// memory that weights and scratch space leave, and at least one whole context.

import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";
import { type FittedPlan, refuseTooLarge, spareBytes } from "./plan-fit.js";

/** The rest is left to another model, and to whatever else the machine does. */
const MEMORY_SHARE = 0.5;

/** In tokens, whole blocks of them. Throws BACKEND_MEMORY where not even one context fits. */
export function servingCacheTokens(plan: FittedPlan, sequences: number, wanted: number | undefined): number {
  const { contextTokens, blockTokens } = plan.config;
  const wholeBlocks = (tokens: number): number => Math.ceil(tokens / blockTokens) * blockTokens;
  const least = wholeBlocks(wanted ?? contextTokens);
  refuseTooLarge(plan, least);
  if (wanted !== undefined) return least;
  const affordable =
    Math.floor((spareBytes(plan) * MEMORY_SHARE) / (plan.kvCacheBytes(least) / least) / blockTokens) * blockTokens;
  const useful = Math.min(
    sequences * wholeBlocks(contextTokens),
    Math.floor(MAX_CONTEXT_TOKENS / blockTokens) * blockTokens,
  );
  return Math.max(least, Math.min(useful, affordable));
}
