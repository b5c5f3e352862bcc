// The KV cache that all sequences of an engine share, and the pools of its blocks, one for each cache group. A store
// starts small and grows with what requests may need, up to its limit: an engine with one request at a time holds one
// request's memory. Growing copies the contents into a larger cache; where both do not fit into memory together, an empty
// one takes the place of the old, and preempted sequences are recomputed.

import { LEAST_STATE_SLOTS } from "../backends/cache-size.js";
import type { KvCache } from "../backends/contract.js";
import type { KvReach } from "../graph/program.js";
import { BlockPools, type PoolSizes, type StateSlotCounts } from "../kv-cache/block-pools.js";
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
  /** State slots, if the model has recurrent layers. */
  readonly states?: StateSlotCounts | undefined;
  /** Creates a cache with these numbers of blocks of each group, and of state slots. */
  readonly create: (blocks: readonly number[], stateSlots: number) => KvCache;
}

/** The shared KV cache of an engine; grows between steps. */
export class KvStore implements Disposable {
  readonly pools: BlockPools;
  readonly #options: KvStoreOptions;
  #kvCache: KvCache | undefined;
  /** Numbers of blocks that could be allocated when more could not. */
  #limits: PoolSizes;

  /** Throws what `create` throws. */
  constructor(options: KvStoreOptions) {
    const { groups, blockTokens, sharesPrefixes, states, create } = options;
    this.#options = options;
    this.pools = new BlockPools(groups, blockTokens, { sharesPrefixes, states });
    this.#limits = { blocks: groups.map(() => Number.POSITIVE_INFINITY), stateSlots: Number.POSITIVE_INFINITY };
    const { blocks, stateSlots } = this.pools.sizes;
    if (!isEmpty(this.pools.sizes)) this.#kvCache = create(blocks, stateSlots);
  }

  get kvCache(): KvCache {
    if (this.#kvCache === undefined) throw new RangeError("the KV cache was used before a sequence requested blocks");
    return this.#kvCache;
  }

  get canGrow(): boolean {
    return [...this.pools.groups, this.pools.states].some((pool) => pool !== undefined && pool.blocks < pool.maxBlocks);
  }

  /**
   * Whether growing would help; memory that was refused once is requested again only for a sequence that could not run
   * otherwise.
   */
  isShortOf(demand: CacheDemand): boolean {
    return this.#options.groups.some((_, group) => this.#isShort(demand, group)) || this.#isShortOfSlots(demand);
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
    const stateSlots = this.#isShortOfSlots(demand) ? this.#grownSlots(demand) : this.pools.sizes.stateSlots;
    const { made } = this.#allocate([{ blocks: grown, stateSlots }]);
    if (made === undefined) return false;
    try {
      made.cache.copyFrom(before, this.pools.usedEnds);
    } catch (error) {
      made.cache[Symbol.dispose]();
      throw error;
    }
    this.#kvCache = made.cache;
    before[Symbol.dispose]();
    this.pools.extend(made.size);
    return true;
  }

  /**
   * Replaces the cache by one that meets the demand, or at least the largest sequence's, or else by one of the old
   * size; the contents are lost. No block may be held. Throws why the demand's largest sequence cannot be held.
   */
  replace(demand: CacheDemand): void {
    const before = this.pools.sizes;
    const isFirst = isEmpty(before);
    // The first request gets what it needs; later ones suggest that more will follow.
    const generous = {
      blocks: isFirst ? demand.blocks : before.blocks.map((_, group) => this.#grown(demand, group)),
      stateSlots: isFirst ? demand.stateSlots : this.#grownSlots(demand),
    };
    const least = { blocks: demand.largest, stateSlots: Math.min(LEAST_STATE_SLOTS, demand.stateSlots) };
    const none = { blocks: before.blocks.map(() => 0), stateSlots: 0 };
    this.pools.reset(none);
    this.#kvCache?.[Symbol.dispose]();
    const { made, failure } = this.#allocate([generous, least, before].filter((size) => !isEmpty(size)));
    this.#kvCache = made?.cache;
    this.pools.reset(made?.size ?? none);
    if (failure !== undefined) this.#limits = this.pools.sizes;
    if (isSmaller(this.pools.sizes, least)) throw failure;
  }

  [Symbol.dispose](): void {
    this.#kvCache?.[Symbol.dispose]();
  }

  #isShort({ blocks, largest }: CacheDemand, group: number): boolean {
    const most = Math.min(blocks[group], this.#limits.blocks[group]);
    return Math.max(largest[group], most) > this.pools.groups[group].blocks;
  }

  #isShortOfSlots({ stateSlots }: CacheDemand): boolean {
    const least = Math.min(LEAST_STATE_SLOTS, stateSlots);
    return Math.max(least, Math.min(stateSlots, this.#limits.stateSlots)) > this.pools.sizes.stateSlots;
  }

  #grown({ blocks }: CacheDemand, group: number): number {
    const { maxBlocks, leastGrownBlocks = 0 } = this.#options.groups[group];
    const more = Math.ceil(this.pools.groups[group].blocks * GROWTH);
    return Math.min(maxBlocks, Math.max(blocks[group], leastGrownBlocks, more));
  }

  #grownSlots({ stateSlots }: CacheDemand): number {
    const { states } = this.pools;
    return Math.min(states?.maxBlocks ?? 0, Math.max(stateSlots, Math.ceil((states?.blocks ?? 0) * GROWTH)));
  }

  /** A cache of the first of these sizes that memory allows, and why a larger one was refused. */
  #allocate(sizes: readonly PoolSizes[]): { readonly made?: SizedCache; readonly failure?: unknown } {
    let failure: unknown;
    const keyOf = ({ blocks, stateSlots }: PoolSizes): string => `${blocks.join()} ${stateSlots}`;
    for (const size of new Map(sizes.map((each) => [keyOf(each), each])).values()) {
      try {
        return { made: { cache: this.#options.create(size.blocks, size.stateSlots), size }, failure };
      } catch (error) {
        failure ??= error;
      }
    }
    return { failure };
  }
}

interface SizedCache {
  readonly cache: KvCache;
  readonly size: PoolSizes;
}

function isEmpty({ blocks, stateSlots }: PoolSizes): boolean {
  return stateSlots === 0 && blocks.every((count) => count === 0);
}

function isSmaller(size: PoolSizes, least: PoolSizes): boolean {
  return size.stateSlots < least.stateSlots || size.blocks.some((count, group) => count < least.blocks[group]);
}
