// How many blocks each cache group has and needs. Full attention needs all blocks of a sequence; a group with a sliding
// window needs those that the next query sees and those that a step writes, however long the sequence is.

import { kvGroups, reachTokens } from "../graph/cache-groups.js";
import type { KvReach, KvShape } from "../graph/program.js";
import type { KvCacheOptions } from "./contract.js";

/**
 * Windows that a group has room for, for each sequence: its own, and one more that keeps the end of an earlier text in
 * the prefix index.
 */
export const WINDOWS_PER_SEQUENCE = 2;

/**
 * State slots for checkpoints, for each sequence: those of its last turns, each with one before the generation prompt,
 * one behind the prompt and one behind the answer.
 */
export const CHECKPOINTS_PER_SEQUENCE = 16;

/** State slots with which a single sequence can run: its own, and one for a checkpoint. */
export const LEAST_STATE_SLOTS = 2;

/** What a cache has to hold at once. */
export interface CacheContents {
  /** Positions of all sequences together. */
  readonly tokens: number;
  /** Maximum number of sequences. */
  readonly sequences: number;
  /** Maximum prefill tokens of a step. */
  readonly stepTokens: number;
  readonly blockTokens: number;
}

/** The number of blocks of each cache group. */
export function groupBlocks(options: KvCacheOptions): readonly number[] {
  const { blocks, blocksByGroup } = options;
  return blocksByGroup ?? kvGroups(options).map(() => blocks);
}

/** Bytes of the recurrent states of a cache. */
export function stateBytes({ states = [], stateSlots = 0 }: KvCacheOptions): number {
  return states.reduce((sum, elements) => sum + elements, 0) * stateSlots * Float32Array.BYTES_PER_ELEMENT;
}

/** The sizes of a cache with this many blocks of each group. */
export function blockCounts(counts: readonly number[]): Pick<KvCacheOptions, "blocks" | "blocksByGroup"> {
  const blocks = Math.max(0, ...counts);
  return counts.every((count) => count === blocks) ? { blocks } : { blocks, blocksByGroup: counts };
}

/**
 * Maximum number of blocks of a group that a sequence of `tokens` tokens holds at once, if steps compute up to
 * `stepTokens` of its tokens.
 */
export function sequenceBlocks(
  reach: KvReach,
  tokens: number,
  { stepTokens, blockTokens }: Pick<CacheContents, "stepTokens" | "blockTokens">,
): number {
  // A window may begin and a step may end in the middle of a block.
  const reached = Math.ceil((reachTokens(reach) - 1 + stepTokens) / blockTokens) + 1;
  return Math.min(Math.ceil(tokens / blockTokens), reached);
}

/** Blocks of a group for some sequences, with a share for the prefix index. */
export function groupBlocksFor(reach: KvReach, contents: CacheContents): number {
  const { tokens, sequences, stepTokens, blockTokens } = contents;
  const whole = Math.ceil(tokens / blockTokens);
  if (reachTokens(reach) === Number.POSITIVE_INFINITY) return whole;
  const window = sequenceBlocks(reach, Number.POSITIVE_INFINITY, { stepTokens: 1, blockTokens });
  return Math.min(whole, WINDOWS_PER_SEQUENCE * sequences * window + Math.ceil(stepTokens / blockTokens));
}

/** Blocks of each group of a cache of this shape. */
export function cacheBlocks(shape: KvShape, contents: CacheContents): readonly number[] {
  return kvGroups(shape).map((group) => groupBlocksFor(group, contents));
}
