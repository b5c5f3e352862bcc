// The blocks of a KV cache: a pool for each cache group, a pool of state slots if the model has recurrent layers, and the
// prefix index that they share. Invariant: a sequence may need more blocks of one group than of another, but a step has
// blocks of all groups and a state slot, or none.

import type { KvReach } from "../graph/program.js";
import { BlockPool } from "./block-pool.js";
import { Checkpoints } from "./checkpoints.js";
import { type BlockHash, PrefixIndex } from "./prefix-index.js";

/** The blocks of one cache group, and how far back its queries see. */
export interface PoolGroup extends KvReach {
  readonly blocks: number;
  /** Blocks the pool may be reset to; by default it stays at its first size. */
  readonly maxBlocks?: number;
}

/** The state slots of a cache. */
export interface StateSlotCounts {
  readonly slots: number;
  /** Slots the pool may be reset to; by default it stays at its first size. */
  readonly maxSlots?: number;
}

/** Options of the pools of a cache. */
interface BlockPoolsOptions {
  /** Keeps full blocks so that sequences with the same prefix share them. */
  readonly sharesPrefixes?: boolean;
  /** The hash function, which tests replace to make hashes collide. */
  readonly hash?: BlockHash;
  /** State slots, if the model has recurrent layers; each running sequence uses one, the others hold checkpoints. */
  readonly states?: StateSlotCounts | undefined;
}

/** Blocks of each group, and state slots, if there are any. */
export interface PoolSizes {
  readonly blocks: readonly number[];
  readonly stateSlots: number;
}

/** State slots and checkpoints. */
interface StateCounts {
  readonly stateSlots: number;
  readonly freeStateSlots: number;
  readonly checkpoints: number;
  readonly evictedCheckpoints: number;
}

/** The block pools of one KV cache. */
export class BlockPools {
  readonly blockTokens: number;
  readonly groups: readonly BlockPool[];
  /** How far back the queries of each group see. */
  readonly reaches: readonly KvReach[];
  /** Undefined if prefixes are not shared. */
  readonly prefixes: PrefixIndex | undefined;
  /** The state slots; undefined if the model has no recurrent layers. */
  readonly states: BlockPool | undefined;
  /** The checkpoints of the prefix index; undefined if there are no state slots or prefixes are not shared. */
  readonly checkpoints: Checkpoints | undefined;

  constructor(
    groups: readonly PoolGroup[],
    blockTokens: number,
    { sharesPrefixes = false, hash, states }: BlockPoolsOptions = {},
  ) {
    this.blockTokens = blockTokens;
    this.reaches = groups.map(({ window, chunk }) => ({
      ...(window === undefined ? {} : { window }),
      ...(chunk === undefined ? {} : { chunk }),
    }));
    this.prefixes = sharesPrefixes
      ? new PrefixIndex(blockTokens, groups.length, {
          hash,
          lost: {
            block: (node, group) => this.checkpoints?.blockLost(node, group),
            tail: (checkpoint) => this.checkpoints?.evict(checkpoint),
          },
        })
      : undefined;
    this.groups = groups.map(
      ({ blocks, maxBlocks = blocks }, group) =>
        new BlockPool(blocks, { cached: this.prefixes?.groups[group], maxBlocks }),
    );
    if (states === undefined) return;
    const { slots, maxSlots = slots } = states;
    const { prefixes } = this;
    if (prefixes !== undefined) {
      const { groups: pools, reaches } = this;
      this.checkpoints = new Checkpoints(() => ({ groups: pools, reaches, slots: pool, prefixes }));
    }
    const pool = new BlockPool(slots, { cached: this.checkpoints?.slots, maxBlocks: maxSlots });
    this.states = pool;
  }

  /** Blocks of each group. */
  get blocks(): readonly number[] {
    return this.groups.map(({ blocks }) => blocks);
  }

  /** Blocks of each group that the pools may be reset to. */
  get maxBlocks(): readonly number[] {
    return this.groups.map(({ maxBlocks }) => maxBlocks);
  }

  /** The present sizes of the pools. */
  get sizes(): PoolSizes {
    return { blocks: this.blocks, stateSlots: this.states?.blocks ?? 0 };
  }

  /** For each group, one more than the highest block with contents. */
  get usedEnds(): readonly number[] {
    return this.groups.map(({ usedEnd }) => usedEnd);
  }

  /** Counts the blocks that lost their last reference: while it does not change, what did not fit still does not. */
  get releases(): number {
    return this.groups.reduce((sum, { releases }) => sum + releases, this.states?.releases ?? 0);
  }

  /** Blocks of all groups, by state. */
  counts(): { readonly blocks: number; readonly freeBlocks: number; readonly cachedBlocks: number } {
    const total = (count: (pool: BlockPool) => number): number =>
      this.groups.reduce((sum, pool) => sum + count(pool), 0);
    return {
      blocks: total(({ blocks }) => blocks),
      freeBlocks: total(({ freeBlocks }) => freeBlocks),
      cachedBlocks: total(({ cachedBlocks }) => cachedBlocks),
    };
  }

  /** State slots, by what they are used for. */
  stateCounts(): StateCounts {
    const { states, checkpoints } = this;
    return {
      stateSlots: states?.blocks ?? 0,
      freeStateSlots: states?.freeBlocks ?? 0,
      checkpoints: checkpoints?.held ?? 0,
      evictedCheckpoints: checkpoints?.evicted ?? 0,
    };
  }

  /** Adds free blocks up to these numbers: the cache behind the pools has grown and kept its contents. */
  extend({ blocks, stateSlots }: PoolSizes): void {
    for (const [group, pool] of this.groups.entries()) pool.extend(blocks[group]);
    this.states?.extend(stateSlots);
  }

  /** Begins again with these numbers of blocks, all free: the contents of the cache are lost. */
  reset({ blocks, stateSlots }: PoolSizes): void {
    for (const [group, pool] of this.groups.entries()) pool.reset(blocks[group]);
    this.states?.reset(stateSlots);
  }
}
