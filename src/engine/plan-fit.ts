// Whether a plan fits into its backend's memory with so many positions: the question in the backend's own sizes.

import type { KvCacheOptions, KvCacheType } from "../backends/contract.js";
import { type MemoryQuestion, refuseUnfit, unfitError } from "../backends/memory-fit.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";

/** What is asked of the plan. */
export type FittedPlan = Pick<
  ExecutionPlan,
  "config" | "backend" | "program" | "memory" | "loadingStats" | "kvCacheBytes"
>;

/** Weights that are still to come and the cache must fit in what is free now; better said before than found out. */
export function refuseTooLarge(plan: FittedPlan, tokens: number): void {
  if (!plan.config.ignoreMemoryCheck) refuseUnfit(questionOf(plan, tokens));
}

/** What those weights and scratch space leave of it. */
export function spareBytes(plan: FittedPlan): number {
  const { availableBytes, weightBytes, scratchBytes } = questionOf(plan, 0);
  return Math.max(0, availableBytes - weightBytes - scratchBytes);
}

/** A context that is refused whatever the weights take. They are not looked at until something is to be computed. */
export function refuseContext(plan: FittedPlan): void {
  const { contextTokens, ignoreMemoryCheck } = plan.config;
  if (!ignoreMemoryCheck && plan.kvCacheBytes(contextTokens) > plan.backend.memory().availableBytes)
    throw unfitError(questionOf(plan, contextTokens));
}

function questionOf(plan: FittedPlan, tokens: number): MemoryQuestion {
  const { backend, config, program } = plan;
  const { blockTokens, kvCacheType } = config;
  const { residentWeightBytes, weightElements, scratchBytes } = plan.memory();
  const cacheOf = (positions: number, type: KvCacheType): KvCacheOptions => ({
    ...program.kv,
    blocks: Math.ceil(positions / blockTokens),
    blockTokens,
    type,
  });
  const weightBytes = Math.max(0, residentWeightBytes - plan.loadingStats().cachedBytes);
  return {
    place: backend.description.name,
    availableBytes: backend.memory().availableBytes,
    weightBytes,
    weightElements: residentWeightBytes === 0 ? 0 : weightElements * (weightBytes / residentWeightBytes),
    scratchBytes,
    tokens,
    blockTokens,
    kvCacheType,
    kvCacheBytes: (positions, type) => backend.kvCacheBytes(cacheOf(positions, type)),
    supportsKvCacheType: (type) => backend.supportsKvCache(cacheOf(blockTokens, type)) === true,
  };
}
