// The blocks of one sequence in one cache group, in order of position. The table grows with the sequence; blocks that no
// query sees any more are released at its beginning. Invariants: a shared block is never written, it is copied first; an
// entry whose block was released is 0, a block of every cache, and is not read.

import type { BlockPool } from "./block-pool.js";

const FIRST_CAPACITY = 8;

/** Copies a block of a cache group before the copy is written to; `to` has no contents yet. */
export type CopyBlock = (from: number, to: number, group: number) => void;

/** The blocks that hold the keys and values of one sequence in one cache group. */
export class BlockTable {
  readonly #pool: BlockPool;
  readonly #blockTokens: number;
  #storage = new Int32Array(FIRST_CAPACITY);
  /**
   * The part of the storage that is in use. Steps receive it as it is, so it changes between steps only, and shrinking
   * keeps its contents.
   */
  #blocks: Int32Array = this.#storage.subarray(0, 0);
  /** The number of leading blocks that were released. */
  #released = 0;

  constructor(pool: BlockPool, blockTokens: number) {
    this.#pool = pool;
    this.#blockTokens = blockTokens;
  }

  get blocks(): Int32Array {
    return this.#blocks;
  }

  /** Index of the first block that was not released. */
  get firstHeld(): number {
    return this.#released;
  }

  /** Number of blocks that the table references. */
  get heldBlocks(): number {
    return this.#blocks.length - this.#released;
  }

  /** Blocks that are missing until the table holds `count`. */
  missingFor(count: number): number {
    return Math.max(0, count - this.heldBlocks);
  }

  /** Blocks that are missing until positions `start` to `end` − 1 can be written: new ones, and copies of shared ones. */
  missingForWrites(start: number, end: number): number {
    const last = Math.ceil(end / this.#blockTokens);
    let missing = Math.max(0, last - this.#blocks.length);
    for (let index = this.#firstWritten(start); index < Math.min(this.#blocks.length, last); index++)
      if (this.#isShared(index, start)) missing++;
    return missing;
  }

  /**
   * Removes the block of position `start` from the prefix index if only the index shares it, so that it can be written
   * without a copy.
   */
  unshare(start: number): void {
    const block = this.#blocks[this.#firstWritten(start)];
    if (block !== undefined && this.#pool.references(block) === 1) this.#pool.uncache(block);
  }

  /** Allocates `count` blocks at the end; the pool must have them. */
  grow(count: number): void {
    if (count > 0) this.#append(this.#allocate(count));
  }

  /** Makes positions `start` to `end` − 1 writable; the pool must have the blocks that are missing. */
  makeWritable(start: number, end: number, copyBlock: (from: number, to: number) => void): void {
    const missing = this.missingForWrites(start, end);
    if (missing === 0) return;
    const taken = this.#allocate(missing);
    const last = Math.min(this.#blocks.length, Math.ceil(end / this.#blockTokens));
    let used = 0;
    for (let index = this.#firstWritten(start); index < last; index++) {
      const from = this.#blocks[index];
      if (!this.#isShared(index, start)) continue;
      copyBlock(from, taken[used]);
      this.#replace(index, taken[used++]);
    }
    if (used < taken.length) this.#append(taken.slice(used));
  }

  /** Puts another block with the same contents in the place of one, or at the end of the table. */
  share(index: number, block: number): void {
    if (index < this.#blocks.length && this.#blocks[index] === block) return;
    this.#pool.retain(block);
    if (index < this.#blocks.length) this.#replace(index, block);
    else this.#append([block]);
  }

  /** Releases the blocks before `index`; the table has at least that length afterwards. */
  releaseBefore(index: number): void {
    const held = Math.min(index, this.#blocks.length);
    if (held > this.#released) {
      const given = this.#storage.slice(this.#released, held);
      this.#storage.fill(0, this.#released, held);
      this.#pool.release(given);
    }
    if (index > this.#blocks.length) this.#append(new Int32Array(index - this.#blocks.length));
    this.#released = Math.max(this.#released, index);
  }

  /** A second table that shares all blocks of this one. */
  fork(): BlockTable {
    const twin = new BlockTable(this.#pool, this.#blockTokens);
    for (const block of this.#blocks.subarray(this.#released)) this.#pool.retain(block);
    twin.#append(this.#blocks);
    twin.#released = this.#released;
    return twin;
  }

  /** Keeps the first `blocks` blocks. */
  truncate(blocks: number): void {
    if (blocks >= this.#blocks.length) return;
    const given = this.#blocks.subarray(Math.max(blocks, this.#released));
    this.#blocks = this.#storage.subarray(0, blocks);
    this.#released = Math.min(this.#released, blocks);
    this.#pool.release(given);
  }

  /** Whether a block must be copied before its positions from `start` on are written. */
  #isShared(index: number, start: number): boolean {
    return this.#pool.isShared(this.#blocks[index], Math.max(0, start - index * this.#blockTokens));
  }

  #firstWritten(start: number): number {
    const first = Math.floor(start / this.#blockTokens);
    if (first < this.#released) throw new RangeError(`position ${start} was released and cannot be written`);
    return first;
  }

  #allocate(count: number): readonly number[] {
    const taken = this.#pool.allocate(count);
    if (taken === undefined) throw new RangeError(`${count} blocks are not available`);
    return taken;
  }

  #append(blocks: ArrayLike<number>): void {
    const length = this.#blocks.length;
    const needed = length + blocks.length;
    if (needed > this.#storage.length) {
      const larger = new Int32Array(Math.max(needed, this.#storage.length * 2));
      larger.set(this.#blocks);
      this.#storage = larger;
    }
    this.#storage.set(blocks, length);
    this.#blocks = this.#storage.subarray(0, needed);
  }

  #replace(index: number, block: number): void {
    const replaced = this.#blocks[index];
    this.#storage[index] = block;
    this.#pool.release([replaced]);
  }
}
