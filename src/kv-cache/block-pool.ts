// Who holds which block of a KV cache: pure bookkeeping, no storage. A block is free, held by one table or by several, or
// cached: held by nobody, and kept because the prefix index knows its contents, until somebody needs a block more.
// Invariant: free + cached + held = all.

import { type BlockHash, PrefixIndex } from "./prefix-index.js";

export interface BlockPoolOptions {
  /** Keeps full blocks for sequences that begin alike. */
  readonly sharesPrefixes?: boolean;
  /** For tests of what happens when hashes collide. */
  readonly hash?: BlockHash;
}

export class BlockPool {
  readonly blocks: number;
  readonly blockTokens: number;
  /** Absent where prefixes are not shared. */
  readonly prefixes: PrefixIndex | undefined;
  /** Free blocks, the next one to hand out last. */
  readonly #free: number[];
  readonly #holders: Int32Array;
  #returns = 0;

  constructor(blocks: number, blockTokens: number, { sharesPrefixes = false, hash }: BlockPoolOptions = {}) {
    this.blocks = blocks;
    this.blockTokens = blockTokens;
    this.prefixes = sharesPrefixes ? new PrefixIndex(blockTokens, hash) : undefined;
    this.#free = Array.from({ length: blocks }, (_, index) => blocks - 1 - index);
    this.#holders = new Int32Array(blocks);
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
