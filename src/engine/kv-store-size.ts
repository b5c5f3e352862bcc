// Sizes of the shared KV cache: what the sequences could fill together, within a share of the memory that weights and
// scratch space leave. Sizes are positions of full attention; a sliding window has the blocks of its sequences.

import { CHECKPOINTS_PER_SEQUENCE, LEAST_STATE_SLOTS } from "../backends/cache-size.js";
import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";
import { type FittedPlan, refuseTooLarge, spareBytes } from "./plan-fit.js";

/** The rest is left for other models and programs. */
const MEMORY_SHARE = 0.5;
/** The share of the spare memory that checkpoints of recurrent states may take. */
const CHECKPOINT_SHARE = 1 / 8;
/** More checkpoints than this have no use: their KV blocks are evicted before. */
const MOST_CHECKPOINTS = 1024;

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
  return plan.kvCacheBlocks(tokens, fittingSequences(plan, tokens, sequences));
}

/** How many of the sequences have windows and recurrent states that fit into the spare memory. */
function fittingSequences(plan: FittedPlan, tokens: number, sequences: number): number {
  const spare = plan.config.ignoreMemoryCheck ? Number.POSITIVE_INFINITY : spareBytes(plan);
  let fitting = sequences;
  while (fitting > 1 && plan.kvCacheBytes(tokens, fitting) > spare) fitting--;
  return fitting;
}

/** What state slots are needed for. */
interface StateSlotDemand {
  /** Positions of the KV cache beside them. */
  readonly tokens: number;
  readonly sequences: number;
  /** Slots for checkpoints; by default as many as are useful, within a share of the spare memory. */
  readonly checkpoints: number | undefined;
}

/** State slots for sequences and checkpoints; undefined if no layer is recurrent. */
export function stateSlotsFor(
  plan: FittedPlan,
  { tokens, sequences, checkpoints }: StateSlotDemand,
): number | undefined {
  const { stateBytes } = plan.memory();
  if (plan.program.kv.states === undefined) return undefined;
  const running = fittingSequences(plan, tokens, sequences);
  const spare = plan.config.ignoreMemoryCheck ? Number.POSITIVE_INFINITY : spareBytes(plan);
  const left = Math.min(spare * CHECKPOINT_SHARE, spare - plan.kvCacheBytes(tokens, running));
  const affordable = Math.max(LEAST_STATE_SLOTS - 1, Math.floor(left / Math.max(1, stateBytes)));
  return running + (checkpoints ?? Math.min(CHECKPOINTS_PER_SEQUENCE * running, MOST_CHECKPOINTS, affordable));
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
