// Which block of a KV cache is free, held or cached: pure bookkeeping, no storage. A held block belongs to one block table
// or to several. A cached block belongs to none; the prefix index knows its contents, and it is evicted when a block is
// needed. Invariant: free + cached + held = all.

import { type BlockHash, PrefixIndex } from "./prefix-index.js";

export interface BlockPoolOptions {
  /** Keeps full blocks for sequences that begin alike. */
  readonly sharesPrefixes?: boolean;
  /** For tests of what happens when hashes collide. */
  readonly hash?: BlockHash;
  /** Blocks the pool may be reset to; by default it stays at its first size. */
  readonly maxBlocks?: number;
}

export class BlockPool {
  readonly blockTokens: number;
  /** Undefined if prefixes are not shared. */
  readonly prefixes: PrefixIndex | undefined;
  /** Blocks the pool may be reset to: no sequence can ever hold more. */
  readonly maxBlocks: number;
  #blocks: number;
  /** Free blocks, the next one to hand out last. */
  #free: number[];
  #holders: Int32Array;
  #returns = 0;

  constructor(
    blocks: number,
    blockTokens: number,
    { sharesPrefixes = false, hash, maxBlocks = blocks }: BlockPoolOptions = {},
  ) {
    this.#blocks = blocks;
    this.maxBlocks = maxBlocks;
    this.blockTokens = blockTokens;
    this.prefixes = sharesPrefixes ? new PrefixIndex(blockTokens, hash) : undefined;
    this.#free = freeBlocks(blocks);
    this.#holders = new Int32Array(blocks);
  }

  get blocks(): number {
    return this.#blocks;
  }

  /** Begins again with this many blocks, all free: the cache behind the pool was replaced, and its contents are lost. */
  reset(blocks: number): void {
    if (this.availableBlocks !== this.#blocks) throw new RangeError("a pool with held blocks cannot be reset");
    while (this.prefixes?.evict() !== undefined);
    this.#blocks = blocks;
    this.#free = freeBlocks(blocks);
    this.#holders = new Int32Array(blocks);
    this.#returns++;
  }

  get freeBlocks(): number {
    return this.#free.length;
  }

  get cachedBlocks(): number {
    return this.prefixes?.waitingBlocks ?? 0;
  }

  /** What `take` can give: cached blocks make way. */
  get availableBlocks(): number {
    return this.freeBlocks + this.cachedBlocks;
  }

  /** Rises whenever a block has lost its last holder: as long as it stands, what did not fit does not fit now. */
  get returns(): number {
    return this.#returns;
  }

  /** `count` blocks, or undefined when there are not that many: running out is an outcome, not an error. */
  take(count: number): readonly number[] | undefined {
    if (count > this.availableBlocks) return undefined;
    const taken: number[] = [];
    while (taken.length < count) {
      const block = this.#free.pop() ?? this.prefixes?.evict();
      if (block === undefined) throw new RangeError(`${this.availableBlocks} blocks were there and are not`);
      this.#holders[block] = 1;
      taken.push(block);
    }
    return taken;
  }

  /** One holder more, of a block that is held or cached. */
  share(block: number): void {
    if (this.#holders[block] === 0) {
      if (this.prefixes?.knows(block) !== true) throw new RangeError(`block ${block} is neither held nor cached`);
      this.prefixes.enter(block);
    }
    this.#holders[block]++;
  }

  /** One holder less, of each; the last ones first, so that what comes first in a sequence is kept longest. */
  give(blocks: ArrayLike<number>): void {
    for (let index = blocks.length - 1; index >= 0; index--) this.#giveOne(blocks[index]);
  }

  holders(block: number): number {
    return this.#holders[block];
  }

  /** Whether somebody else reads it, or may come to: then it must not be written. */
  isShared(block: number): boolean {
    return this.#holders[block] > 1 || this.prefixes?.knows(block) === true;
  }

  #giveOne(block: number): void {
    if (!(this.#holders[block] > 0)) throw new RangeError(`block ${block} is not held`);
    if (--this.#holders[block] > 0) return;
    this.#returns++;
    if (this.prefixes?.leave(block) !== true) this.#free.push(block);
  }
}

/** All blocks, the first one last: `take` hands it out first. */
function freeBlocks(blocks: number): number[] {
  return Array.from({ length: blocks }, (_, index) => blocks - 1 - index);
}
