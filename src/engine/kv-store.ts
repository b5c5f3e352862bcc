// The KV cache that all sequences of an engine share, and the pool of its blocks. A store starts small and grows with
// what requests may need, up to its limit: an engine with one request at a time holds one request's memory. Growing
// copies the contents into a larger cache; where both do not fit into memory together, an empty one takes the place of
// the old, and preempted sequences are recomputed.

import type { KvCache } from "../backends/contract.js";
import { BlockPool } from "../kv-cache/block-pool.js";
import type { CacheDemand } from "../scheduler/scheduler.js";

/** Minimum growth factor, so that slightly longer requests rarely replace the cache. */
const GROWTH = 1.5;

interface KvStoreOptions {
  /** Initial number of blocks; 0 allocates nothing until a sequence needs some. */
  readonly blocks: number;
  /** Maximum number of blocks. */
  readonly maxBlocks: number;
  /** Minimum number of blocks of a cache that replaces a smaller one; 0 by default. */
  readonly leastGrownBlocks?: number;
  readonly blockTokens: number;
  readonly sharesPrefixes: boolean;
  readonly create: (blocks: number) => KvCache;
}

/** The shared KV cache of an engine; grows between steps. */
export class KvStore implements Disposable {
  readonly pool: BlockPool;
  readonly #options: KvStoreOptions;
  #kvCache: KvCache | undefined;
  /** Number of blocks that could be allocated when more could not. */
  #limit = Number.POSITIVE_INFINITY;

  /** Throws what `create` throws. */
  constructor(options: KvStoreOptions) {
    const { blocks, maxBlocks, blockTokens, sharesPrefixes, create } = options;
    this.#options = options;
    this.pool = new BlockPool(blocks, blockTokens, { sharesPrefixes, maxBlocks });
    if (blocks > 0) this.#kvCache = create(blocks);
  }

  get kvCache(): KvCache {
    if (this.#kvCache === undefined) throw new RangeError("the KV cache was used before a sequence requested blocks");
    return this.#kvCache;
  }

  get canGrow(): boolean {
    return this.pool.blocks < this.pool.maxBlocks;
  }

  /**
   * Whether growing would help; memory that was refused once is requested again only for a sequence that could not run
   * otherwise.
   */
  isShortOf({ blocks, largest }: CacheDemand): boolean {
    return Math.max(largest, Math.min(blocks, this.#limit)) > this.pool.blocks;
  }

  /**
   * Grows the cache for the demand and keeps its contents: running sequences and cached prefixes stay. False if there is
   * nothing to keep, or if the old cache and the new one do not fit into memory together, so that only `replace` can
   * help.
   */
  extend({ blocks }: CacheDemand): boolean {
    const before = this.#kvCache;
    if (before === undefined) return false;
    const { made } = this.#allocate([this.#grown(blocks)]);
    if (made === undefined) return false;
    try {
      made.cache.copyFrom(before, this.pool.usedEnd);
    } catch (error) {
      made.cache[Symbol.dispose]();
      throw error;
    }
    this.#kvCache = made.cache;
    before[Symbol.dispose]();
    this.pool.extend(made.blocks);
    return true;
  }

  /**
   * Replaces the cache by one that meets the demand, or at least the largest sequence's, or else by one of the old
   * size; the contents are lost. No block may be held. Throws why the demand's largest sequence cannot be held.
   */
  replace({ blocks, largest }: CacheDemand): void {
    const before = this.pool.blocks;
    // The first request gets what it needs; later ones suggest that more will follow.
    const generous = before === 0 ? blocks : this.#grown(blocks);
    this.pool.reset(0);
    this.#kvCache?.[Symbol.dispose]();
    const { made, failure } = this.#allocate([generous, largest, before].filter((size) => size > 0));
    this.#kvCache = made?.cache;
    this.pool.reset(made?.blocks ?? 0);
    if (failure !== undefined) this.#limit = this.pool.blocks;
    if (this.pool.blocks < largest) throw failure;
  }

  [Symbol.dispose](): void {
    this.#kvCache?.[Symbol.dispose]();
  }

  #grown(blocks: number): number {
    const { maxBlocks, leastGrownBlocks = 0 } = this.#options;
    return Math.min(maxBlocks, Math.max(blocks, leastGrownBlocks, Math.ceil(this.pool.blocks * GROWTH)));
  }

  /** A cache of the first of these sizes that memory allows, and why a larger one was refused. */
  #allocate(sizes: readonly number[]): { readonly made?: SizedCache; readonly failure?: unknown } {
    let failure: unknown;
    for (const blocks of new Set(sizes)) {
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
  readonly blocks: number;
}
