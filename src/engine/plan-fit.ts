// Whether a plan fits into the memory of its backend with a KV cache of a given size.

import { blockCounts, LEAST_STATE_SLOTS, stateBytes } from "../backends/cache-size.js";
import type { KvCacheOptions, KvCacheType } from "../backends/contract.js";
import {
  adviceFor,
  type MemoryAdvice,
  type MemoryQuestion,
  neededBytes,
  refuseUnfit,
  unfitError,
} from "../backends/memory-fit.js";
import type { BackendError } from "../errors.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";

/** The parts of a plan that determine its memory. */
export type FittedPlan = Pick<
  ExecutionPlan,
  "config" | "backend" | "program" | "memory" | "loadingStats" | "kvCacheBlocks" | "kvCacheBytes"
>;

/** Throws BACKEND_MEMORY unless the weights that are not loaded yet and the cache fit into the free memory. */
export function refuseTooLarge(plan: FittedPlan, tokens: number): void {
  if (!plan.config.ignoreMemoryCheck) refuseUnfit(questionOf(plan, tokens));
}

/** Whether a plan fits with a cache of this many positions, and settings that would. */
export interface PlanFit extends MemoryAdvice {
  readonly fits: boolean;
  readonly neededBytes: number;
  readonly availableBytes: number;
  readonly weightBytes: number;
  /** Bytes of the KV cache, with the recurrent states. */
  readonly kvCacheBytes: number;
  /** Bytes of the recurrent states, of one sequence and one checkpoint; 0 if no layer is recurrent. */
  readonly stateBytes: number;
  readonly scratchBytes: number;
  readonly tokens: number;
  readonly kvCacheType: KvCacheType;
  /** Present if it does not fit: the error with which loading would be refused. */
  readonly refusal?: BackendError;
}

/** Compares what a plan needs with the free memory. */
export function fitOf(plan: FittedPlan, tokens: number): PlanFit {
  const question = questionOf(plan, tokens);
  const { availableBytes, weightBytes, scratchBytes, kvCacheType } = question;
  const needed = neededBytes(question);
  const fits = needed <= availableBytes;
  return {
    fits,
    neededBytes: needed,
    availableBytes,
    weightBytes,
    kvCacheBytes: question.kvCacheBytes(tokens, kvCacheType),
    stateBytes: question.stateBytes ?? 0,
    scratchBytes,
    tokens,
    kvCacheType,
    ...(fits ? {} : { ...adviceFor(question), refusal: unfitError(question) }),
  };
}

/** Free bytes beside weights and scratch space. */
export function spareBytes(plan: FittedPlan): number {
  const { availableBytes, weightBytes, scratchBytes } = questionOf(plan, 0);
  return Math.max(0, availableBytes - weightBytes - scratchBytes);
}

/** Refuses a context whose cache alone exceeds the memory; weights are checked when something is computed. */
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
    ...blockCounts(plan.kvCacheBlocks(positions)),
    blockTokens,
    type,
    ...(program.kv.states === undefined ? {} : { stateSlots: LEAST_STATE_SLOTS }),
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
    stateBytes: stateBytes(cacheOf(0, kvCacheType)),
    supportsKvCacheType: (type) => backend.supportsKvCache(cacheOf(blockTokens, type)) === true,
  };
}
