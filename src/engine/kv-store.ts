// The KV cache that all sequences of an engine share, and the pool of its blocks. A store starts small and grows with
// what requests may need, up to its limit: an engine with one request at a time holds one request's memory. Growing
// replaces the cache, so that no backend has to copy one: its contents are lost, and sequences compute them again.

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
   * Replaces the cache by one that meets the demand, or at least the largest sequence's, otherwise by one of the old
   * size. No block may be in use. Throws if the largest sequence cannot be held.
   */
  grow({ blocks, largest }: CacheDemand): void {
    const { maxBlocks, leastGrownBlocks = 0 } = this.#options;
    const before = this.pool.blocks;
    // The first request gets what it needs; later ones suggest that more will follow.
    const generous =
      before === 0 ? blocks : Math.min(maxBlocks, Math.max(blocks, leastGrownBlocks, Math.ceil(before * GROWTH)));
    let failure: unknown;
    this.pool.reset(0);
    this.#kvCache?.[Symbol.dispose]();
    this.#kvCache = undefined;
    for (const size of new Set([generous, largest, before])) {
      if (size === 0) continue;
      try {
        this.#kvCache = this.#options.create(size);
        this.pool.reset(size);
        break;
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure !== undefined) this.#limit = this.pool.blocks;
    if (this.pool.blocks < largest) throw failure;
  }

  [Symbol.dispose](): void {
    this.#kvCache?.[Symbol.dispose]();
  }
}
