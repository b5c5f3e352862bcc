// The blocks of one sequence, in order of position. The table grows with the sequence; disposal returns all blocks to
// the pool. Full blocks are committed to the pool's prefix index, from which other sequences reuse them. Invariants: a
// shared block is never written, it is copied first; a table that references a committed block references all blocks
// before it.

import type { BlockPool } from "./block-pool.js";
import type { PrefixNode } from "./prefix-index.js";

const FIRST_CAPACITY = 8;

/** Copies a block before the copy is written to; `to` has no contents yet. */
export type CopyBlock = (from: number, to: number) => void;

/** The blocks that hold the keys and values of one sequence. */
export class BlockTable implements Disposable {
  readonly #pool: BlockPool;
  #storage = new Int32Array(FIRST_CAPACITY);
  /**
   * The part of the storage that is in use. Steps receive it as it is, so it changes between steps only, and shrinking
   * keeps its contents.
   */
  #blocks: Int32Array = this.#storage.subarray(0, 0);
  /** The number of leading blocks that are in the prefix index, and the node of the last one. */
  #committedBlocks = 0;
  #committed: PrefixNode | undefined;

  constructor(pool: BlockPool) {
    this.#pool = pool;
  }

  get blocks(): Int32Array {
    return this.#blocks;
  }

  get capacityTokens(): number {
    return this.#blocks.length * this.#pool.blockTokens;
  }

  get committedTokens(): number {
    return this.#committedBlocks * this.#pool.blockTokens;
  }

  /** Allocates blocks for positions 0 to `tokens` − 1; returns false, and changes nothing, if the pool has too few. */
  reserve(tokens: number): boolean {
    const missing = this.#blocksFor(tokens) - this.#blocks.length;
    if (missing <= 0) return true;
    const taken = this.#pool.allocate(missing);
    if (taken === undefined) return false;
    this.#append(taken);
    return true;
  }

  /**
   * Makes positions `start` to `end` − 1 writable by copying shared blocks; returns false, and changes nothing, if the
   * pool has too few blocks.
   */
  makeWritable(start: number, end: number, copyBlock: CopyBlock): boolean {
    if (start < this.committedTokens)
      throw new RangeError(`position ${start} is committed and must not be written again`);
    const first = Math.floor(start / this.#pool.blockTokens);
    const missing = Math.max(0, this.#blocksFor(end) - this.#blocks.length);
    let shared = 0;
    const last = Math.min(this.#blocks.length, this.#blocksFor(end));
    for (let index = first; index < last; index++) if (this.#pool.isShared(this.#blocks[index])) shared++;
    if (missing + shared === 0) return true;
    const taken = this.#pool.allocate(missing + shared);
    if (taken === undefined) return false;
    let used = 0;
    for (let index = first; index < last; index++) {
      const from = this.#blocks[index];
      if (!this.#pool.isShared(from)) continue;
      copyBlock(from, taken[used]);
      this.#replace(index, taken[used++]);
    }
    if (missing > 0) this.#append(taken.slice(used));
    return true;
  }

  /**
   * Reuses blocks that the prefix index has for these tokens, from the last committed block on, replacing or extending
   * the table's own. The last token is always left to be computed, because its output is needed. Returns the number of
   * tokens that need not be computed.
   */
  reusePrefix(tokens: Int32Array): number {
    const { prefixes, blockTokens } = this.#pool;
    if (prefixes === undefined || !prefixes.hasNode(this.#committed)) return 0;
    const before = this.#committedBlocks;
    const most = Math.floor((tokens.length - 1) / blockTokens);
    while (this.#committedBlocks < most) {
      const node = prefixes.find(this.#committed, tokens, this.committedTokens);
      if (node === undefined) break;
      this.#pool.retain(node.block);
      if (this.#committedBlocks < this.#blocks.length) this.#replace(this.#committedBlocks, node.block);
      else this.#append([node.block]);
      this.#committed = node;
      this.#committedBlocks++;
    }
    return (this.#committedBlocks - before) * blockTokens;
  }

  /** Adds the full blocks among the first `written` positions, which hold these tokens, to the prefix index. */
  commit(tokens: Int32Array, written: number): void {
    const { prefixes, blockTokens } = this.#pool;
    if (prefixes === undefined || !prefixes.hasNode(this.#committed)) return;
    const full = Math.floor(written / blockTokens);
    while (this.#committedBlocks < full) {
      const index = this.#committedBlocks;
      const known = prefixes.find(this.#committed, tokens, index * blockTokens);
      if (known === undefined) {
        // Another table committed this block below a parent that has been withdrawn since; a block has one node, which
        // can no longer be found.
        if (prefixes.hasBlock(this.#blocks[index])) return;
        this.#committed = prefixes.add(this.#committed, tokens, index * blockTokens, this.#blocks[index]);
      } else {
        // Another sequence computed the same block meanwhile; one copy is enough, and its children must have a
        // referenced parent.
        this.#pool.retain(known.block);
        this.#replace(index, known.block);
        this.#committed = known;
      }
      this.#committedBlocks++;
    }
  }

  /**
   * Removes the contents of this table from the prefix index because they are wrong, whichever sequence committed them.
   * Other tables keep the blocks that they share, but blocks committed below them can no longer be found either.
   */
  invalidate(): void {
    for (let node = this.#committed; node !== undefined; node = node.parent) this.#pool.prefixes?.remove(node);
  }

  /** A second table that shares all blocks of this one. */
  fork(): BlockTable {
    const twin = new BlockTable(this.#pool);
    for (const block of this.#blocks) this.#pool.retain(block);
    twin.#append(this.#blocks);
    twin.#committed = this.#committed;
    twin.#committedBlocks = this.#committedBlocks;
    return twin;
  }

  /** Returns the blocks of the positions from `tokens` on to the pool; these positions can be written again later. */
  truncate(tokens: number): void {
    this.#forgetCommitted(Math.floor(tokens / this.#pool.blockTokens));
    const kept = this.#blocksFor(tokens);
    if (kept >= this.#blocks.length) return;
    const given = this.#blocks.subarray(kept);
    this.#blocks = this.#storage.subarray(0, kept);
    this.#pool.release(given);
  }

  [Symbol.dispose](): void {
    this.truncate(0);
  }

  #blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.#pool.blockTokens);
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

  /** Marks at most the first `blocks` blocks as committed. */
  #forgetCommitted(blocks: number): void {
    while (this.#committedBlocks > blocks) {
      this.#committed = this.#committed?.parent;
      this.#committedBlocks--;
    }
  }
}
