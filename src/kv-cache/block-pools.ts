// The blocks of a KV cache: a pool for each cache group, and the prefix index that they share. Invariant: a sequence may
// need more blocks of one group than of another, but a step has blocks of all groups or none.

import type { KvReach } from "../graph/program.js";
import { BlockPool } from "./block-pool.js";
import { type BlockHash, PrefixIndex } from "./prefix-index.js";

/** The blocks of one cache group, and how far back its queries see. */
export interface PoolGroup extends KvReach {
  readonly blocks: number;
  /** Blocks the pool may be reset to; by default it stays at its first size. */
  readonly maxBlocks?: number;
}

/** Options of the pools of a cache. */
interface BlockPoolsOptions {
  /** Keeps full blocks so that sequences with the same prefix share them. */
  readonly sharesPrefixes?: boolean;
  /** The hash function, which tests replace to make hashes collide. */
  readonly hash?: BlockHash;
}

/** The block pools of one KV cache. */
export class BlockPools {
  readonly blockTokens: number;
  readonly groups: readonly BlockPool[];
  /** How far back the queries of each group see. */
  readonly reaches: readonly KvReach[];
  /** Undefined if prefixes are not shared. */
  readonly prefixes: PrefixIndex | undefined;

  constructor(
    groups: readonly PoolGroup[],
    blockTokens: number,
    { sharesPrefixes = false, hash }: BlockPoolsOptions = {},
  ) {
    this.blockTokens = blockTokens;
    this.reaches = groups.map(({ window, chunk }) => ({
      ...(window === undefined ? {} : { window }),
      ...(chunk === undefined ? {} : { chunk }),
    }));
    this.prefixes = sharesPrefixes ? new PrefixIndex(blockTokens, groups.length, hash) : undefined;
    this.groups = groups.map(
      ({ blocks, maxBlocks = blocks }, group) =>
        new BlockPool(blocks, { cached: this.prefixes?.groups[group], maxBlocks }),
    );
  }

  /** Blocks of each group. */
  get blocks(): readonly number[] {
    return this.groups.map(({ blocks }) => blocks);
  }

  /** Blocks of each group that the pools may be reset to. */
  get maxBlocks(): readonly number[] {
    return this.groups.map(({ maxBlocks }) => maxBlocks);
  }

  /** For each group, one more than the highest block with contents. */
  get usedEnds(): readonly number[] {
    return this.groups.map(({ usedEnd }) => usedEnd);
  }

  /** Counts the blocks that lost their last reference: while it does not change, what did not fit still does not. */
  get releases(): number {
    return this.groups.reduce((sum, { releases }) => sum + releases, 0);
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

  /** Adds free blocks up to these numbers: the cache behind the pools has grown and kept its contents. */
  extend(blocks: readonly number[]): void {
    for (const [group, pool] of this.groups.entries()) pool.extend(blocks[group]);
  }

  /** Begins again with these numbers of blocks, all free: the contents of the cache are lost. */
  reset(blocks: readonly number[]): void {
    for (const [group, pool] of this.groups.entries()) pool.reset(blocks[group]);
  }
}
