// Reference counts of the blocks of one cache group, or of the state slots: bookkeeping only, no storage. A block is free,
// referenced by one or more block tables, or cached: unreferenced, but kept because the prefix index knows its contents,
// until it is evicted. Invariant: free + cached + referenced = all.

import type { CachedBlocks } from "./cached-blocks.js";

/** The cached blocks of the pool, wherever the prefix index has them. */
interface PoolCache extends Pick<
  CachedBlocks<never>,
  "waiting" | "has" | "filled" | "release" | "retain" | "evict" | "remove"
> {
  removePlace(block: number, place: unknown): void;
}

/** Options of a block pool. */
interface BlockPoolOptions {
  /** Blocks that are kept so that sequences with the same prefix share them; undefined if prefixes are not shared. */
  readonly cached?: PoolCache | undefined;
  /** Blocks the pool may be reset to; by default it stays at its first size. */
  readonly maxBlocks?: number;
}

/** Allocates the blocks of one cache group and counts their references. */
export class BlockPool {
  /** Blocks the pool may be reset to: no sequence can ever hold more. */
  readonly maxBlocks: number;
  readonly #cached: PoolCache | undefined;
  #blocks: number;
  /** Free blocks, the next one to hand out last. */
  #free: number[];
  #references: Int32Array;
  #releases = 0;

  constructor(blocks: number, { cached, maxBlocks = blocks }: BlockPoolOptions = {}) {
    this.#blocks = blocks;
    this.maxBlocks = maxBlocks;
    this.#cached = cached;
    this.#free = freeBlocks(blocks);
    this.#references = new Int32Array(blocks);
  }

  get blocks(): number {
    return this.#blocks;
  }

  /** Adds free blocks up to this many: the cache behind the pool has grown and kept its contents. */
  extend(blocks: number): void {
    if (blocks < this.#blocks || blocks > this.maxBlocks)
      throw new RangeError(`a pool of ${this.#blocks} blocks cannot be extended to ${blocks}`);
    const references = new Int32Array(blocks);
    references.set(this.#references);
    // Underneath the others: blocks of the old part are handed out first.
    const added = Array.from({ length: blocks - this.#blocks }, (_, index) => blocks - 1 - index);
    this.#free = [...added, ...this.#free];
    this.#references = references;
    this.#blocks = blocks;
    this.#releases++;
  }

  /** One more than the highest block that is referenced or cached: no block from there on has contents. */
  get usedEnd(): number {
    const free = new Set(this.#free);
    let end = this.#blocks;
    while (end > 0 && free.has(end - 1)) end--;
    return end;
  }

  /** Begins again with this many blocks, all free: the cache behind the pool was replaced, and its contents are lost. */
  reset(blocks: number): void {
    if (this.availableBlocks !== this.#blocks) throw new RangeError("a pool with held blocks cannot be reset");
    while (this.#cached?.evict() !== undefined);
    this.#blocks = blocks;
    this.#free = freeBlocks(blocks);
    this.#references = new Int32Array(blocks);
    this.#releases++;
  }

  get freeBlocks(): number {
    return this.#free.length;
  }

  get cachedBlocks(): number {
    return this.#cached?.waiting ?? 0;
  }

  /** How many blocks `allocate` can hand out: free ones, and cached ones after eviction. */
  get availableBlocks(): number {
    return this.freeBlocks + this.cachedBlocks;
  }

  /** How many blocks can be taken for something that cached ones are worth more than: half of the pool stays cached. */
  get spareBlocks(): number {
    return this.freeBlocks + Math.max(0, this.cachedBlocks - Math.ceil(this.#blocks / 2));
  }

  /**
   * Counts the blocks that lost their last reference: while it does not change, a request that did not fit still does
   * not.
   */
  get releases(): number {
    return this.#releases;
  }

  /** `count` blocks, or undefined if fewer are available: running out is an outcome, not an error. */
  allocate(count: number): readonly number[] | undefined {
    if (count > this.availableBlocks) return undefined;
    const allocated: number[] = [];
    while (allocated.length < count) {
      const block = this.#free.pop() ?? this.#cached?.evict();
      if (block === undefined)
        throw new RangeError(`${this.availableBlocks} blocks were available and cannot be allocated`);
      this.#references[block] = 1;
      allocated.push(block);
    }
    return allocated;
  }

  /** Adds a reference to a block that is referenced or cached. */
  retain(block: number): void {
    if (this.#references[block] === 0) {
      if (this.#cached?.has(block) !== true) throw new RangeError(`block ${block} is neither referenced nor cached`);
      this.#cached.retain(block);
    }
    this.#references[block]++;
  }

  /**
   * Removes a reference from each block, the last block first, so that the beginning of a sequence stays cached
   * longest.
   */
  release(blocks: ArrayLike<number>): void {
    for (let index = blocks.length - 1; index >= 0; index--) this.#releaseOne(blocks[index]);
  }

  references(block: number): number {
    return this.#references[block];
  }

  /** Whether the prefix index knows the contents of the block. */
  isCached(block: number): boolean {
    return this.#cached?.has(block) === true;
  }

  /** Removes a block, or one place of it, from the prefix index; a block that is not in it any more is free if it has no reference. */
  uncache(block: number, place?: unknown): void {
    if (!this.isCached(block)) return;
    if (place === undefined) this.#cached?.remove(block);
    else this.#cached?.removePlace(block, place);
    if (this.#references[block] > 0 || this.isCached(block)) return;
    this.#free.push(block);
    this.#releases++;
  }

  /** How many leading positions of the block the prefix index knows. */
  cachedPositions(block: number): number {
    return this.#cached?.filled(block) ?? 0;
  }

  /**
   * Whether the positions of the block from `offset` on must not be written: it has other references, or the prefix
   * index knows some of them.
   */
  isShared(block: number, offset = 0): boolean {
    return this.#references[block] > 1 || this.cachedPositions(block) > offset;
  }

  #releaseOne(block: number): void {
    if (!(this.#references[block] > 0)) throw new RangeError(`block ${block} is not referenced`);
    if (--this.#references[block] > 0) return;
    this.#releases++;
    if (this.#cached?.release(block) !== true) this.#free.push(block);
  }
}

/** All blocks, the first one last: `take` hands it out first. */
function freeBlocks(blocks: number): number[] {
  return Array.from({ length: blocks }, (_, index) => blocks - 1 - index);
}
