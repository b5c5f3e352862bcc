// The KV cache that all sequences of an engine share, and the pools of its blocks, one for each cache group. A store
// starts small and grows with what requests may need, up to its limit: an engine with one request at a time holds one
// request's memory. Growing copies the contents into a larger cache; where both do not fit into memory together, an empty
// one takes the place of the old, and preempted sequences are recomputed.

import type { KvCache } from "../backends/contract.js";
import type { KvReach } from "../graph/program.js";
import { BlockPools } from "../kv-cache/block-pools.js";
import type { CacheDemand } from "../scheduler/block-demand.js";

/** Minimum growth factor, so that slightly longer requests rarely replace the cache. */
const GROWTH = 1.5;

/** The blocks of one cache group. */
interface KvStoreGroup extends KvReach {
  /** Initial number of blocks; 0 in all groups allocates nothing until a sequence needs some. */
  readonly blocks: number;
  /** Maximum number of blocks. */
  readonly maxBlocks: number;
  /** Minimum number of blocks of a cache that replaces a smaller one; 0 by default. */
  readonly leastGrownBlocks?: number;
}

interface KvStoreOptions {
  readonly groups: readonly KvStoreGroup[];
  readonly blockTokens: number;
  readonly sharesPrefixes: boolean;
  /** Creates a cache with these numbers of blocks of each group. */
  readonly create: (blocks: readonly number[]) => KvCache;
}

/** The shared KV cache of an engine; grows between steps. */
export class KvStore implements Disposable {
  readonly pools: BlockPools;
  readonly #options: KvStoreOptions;
  #kvCache: KvCache | undefined;
  /** Numbers of blocks that could be allocated when more could not. */
  #limits: readonly number[];

  /** Throws what `create` throws. */
  constructor(options: KvStoreOptions) {
    const { groups, blockTokens, sharesPrefixes, create } = options;
    this.#options = options;
    this.pools = new BlockPools(groups, blockTokens, { sharesPrefixes });
    this.#limits = groups.map(() => Number.POSITIVE_INFINITY);
    if (this.pools.blocks.some((blocks) => blocks > 0)) this.#kvCache = create(this.pools.blocks);
  }

  get kvCache(): KvCache {
    if (this.#kvCache === undefined) throw new RangeError("the KV cache was used before a sequence requested blocks");
    return this.#kvCache;
  }

  get canGrow(): boolean {
    return this.pools.groups.some(({ blocks, maxBlocks }) => blocks < maxBlocks);
  }

  /**
   * Whether growing would help; memory that was refused once is requested again only for a sequence that could not run
   * otherwise.
   */
  isShortOf(demand: CacheDemand): boolean {
    return this.#options.groups.some((_, group) => this.#isShort(demand, group));
  }

  /**
   * Grows the cache for the demand and keeps its contents: running sequences and cached prefixes stay. False if there is
   * nothing to keep, or if the old cache and the new one do not fit into memory together, so that only `replace` can
   * help.
   */
  extend(demand: CacheDemand): boolean {
    const before = this.#kvCache;
    if (before === undefined) return false;
    const grown = this.pools.blocks.map((blocks, group) =>
      this.#isShort(demand, group) ? this.#grown(demand, group) : blocks,
    );
    const { made } = this.#allocate([grown]);
    if (made === undefined) return false;
    try {
      made.cache.copyFrom(before, this.pools.usedEnds);
    } catch (error) {
      made.cache[Symbol.dispose]();
      throw error;
    }
    this.#kvCache = made.cache;
    before[Symbol.dispose]();
    this.pools.extend(made.blocks);
    return true;
  }

  /**
   * Replaces the cache by one that meets the demand, or at least the largest sequence's, or else by one of the old
   * size; the contents are lost. No block may be held. Throws why the demand's largest sequence cannot be held.
   */
  replace(demand: CacheDemand): void {
    const before = this.pools.blocks;
    const isFirst = before.every((blocks) => blocks === 0);
    // The first request gets what it needs; later ones suggest that more will follow.
    const generous = isFirst ? demand.blocks : before.map((_, group) => this.#grown(demand, group));
    const none = before.map(() => 0);
    this.pools.reset(none);
    this.#kvCache?.[Symbol.dispose]();
    const sizes = [generous, demand.largest, before];
    const { made, failure } = this.#allocate(sizes.filter((size) => size.some((blocks) => blocks > 0)));
    this.#kvCache = made?.cache;
    this.pools.reset(made?.blocks ?? none);
    if (failure !== undefined) this.#limits = this.pools.blocks;
    if (this.pools.blocks.some((blocks, group) => blocks < demand.largest[group])) throw failure;
  }

  [Symbol.dispose](): void {
    this.#kvCache?.[Symbol.dispose]();
  }

  #isShort({ blocks, largest }: CacheDemand, group: number): boolean {
    return Math.max(largest[group], Math.min(blocks[group], this.#limits[group])) > this.pools.groups[group].blocks;
  }

  #grown({ blocks }: CacheDemand, group: number): number {
    const { maxBlocks, leastGrownBlocks = 0 } = this.#options.groups[group];
    const more = Math.ceil(this.pools.groups[group].blocks * GROWTH);
    return Math.min(maxBlocks, Math.max(blocks[group], leastGrownBlocks, more));
  }

  /** A cache of the first of these sizes that memory allows, and why a larger one was refused. */
  #allocate(sizes: readonly (readonly number[])[]): { readonly made?: SizedCache; readonly failure?: unknown } {
    let failure: unknown;
    for (const blocks of new Map(sizes.map((size) => [size.join(), size])).values()) {
      try {
        return { made: { cache: this.#options.create(blocks), blocks }, failure };
      } catch (error) {
        failure ??= error;
      }
    }
    return { failure };
  }
}

interface SizedCache {
  readonly cache: KvCache;
  readonly blocks: readonly number[];
}
