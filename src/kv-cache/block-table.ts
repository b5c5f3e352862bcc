// The blocks of one sequence, in order of position. Grows as the sequence does; disposing gives all blocks back. Full
// blocks are committed to the pool's prefix index, where others find them. Invariants: a block that somebody else reads
// is never written, a copy is; whoever holds a committed block holds all that come before it.

import type { BlockPool } from "./block-pool.js";
import type { PrefixNode } from "./prefix-index.js";

const FIRST_CAPACITY = 8;

/** Asked for before the copied block is written; `to` holds nothing yet. */
export type CopyBlock = (from: number, to: number) => void;

export class BlockTable implements Disposable {
  readonly #pool: BlockPool;
  #storage = new Int32Array(FIRST_CAPACITY);
  /** The part in use; steps are given it as it is, so it changes between steps only, and shrinking leaves its contents. */
  #blocks: Int32Array = this.#storage.subarray(0, 0);
  /** Of the leading blocks, those that the index knows, and the last one's place in it. */
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

  /** Makes room for positions 0 to `tokens` − 1; false, and nothing changed, when the pool has too few blocks. */
  reserve(tokens: number): boolean {
    const missing = this.#blocksFor(tokens) - this.#blocks.length;
    if (missing <= 0) return true;
    const taken = this.#pool.take(missing);
    if (taken === undefined) return false;
    this.#append(taken);
    return true;
  }

  /** Makes positions `start` to `end` − 1 this table's own to write; false, and nothing changed, without the blocks for it. */
  own(start: number, end: number, copyBlock: CopyBlock): boolean {
    if (start < this.committedTokens)
      throw new RangeError(`position ${start} is committed, and not to be written again`);
    const first = Math.floor(start / this.#pool.blockTokens);
    const missing = Math.max(0, this.#blocksFor(end) - this.#blocks.length);
    let shared = 0;
    const last = Math.min(this.#blocks.length, this.#blocksFor(end));
    for (let index = first; index < last; index++) if (this.#pool.isShared(this.#blocks[index])) shared++;
    if (missing + shared === 0) return true;
    const taken = this.#pool.take(missing + shared);
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
   * Takes over blocks that the index knows for these tokens, from the last committed one on, instead of own ones or
   * beyond them. The last token is left to be computed: somebody wants its output. Returns the tokens it gained.
   */
  adopt(tokens: Int32Array): number {
    const { prefixes, blockTokens } = this.#pool;
    if (prefixes === undefined || !prefixes.holds(this.#committed)) return 0;
    const before = this.#committedBlocks;
    const most = Math.floor((tokens.length - 1) / blockTokens);
    while (this.#committedBlocks < most) {
      const node = prefixes.find(this.#committed, tokens, this.committedTokens);
      if (node === undefined) break;
      this.#pool.share(node.block);
      if (this.#committedBlocks < this.#blocks.length) this.#replace(this.#committedBlocks, node.block);
      else this.#append([node.block]);
      this.#committed = node;
      this.#committedBlocks++;
    }
    return (this.#committedBlocks - before) * blockTokens;
  }

  /** Lets others find the full blocks among the first `written` positions, which hold these tokens. */
  commit(tokens: Int32Array, written: number): void {
    const { prefixes, blockTokens } = this.#pool;
    if (prefixes === undefined || !prefixes.holds(this.#committed)) return;
    const full = Math.floor(written / blockTokens);
    while (this.#committedBlocks < full) {
      const index = this.#committedBlocks;
      const known = prefixes.find(this.#committed, tokens, index * blockTokens);
      if (known === undefined) {
        // Another holder had put it in after a block that was withdrawn since; it has one place, which nobody finds.
        if (prefixes.knows(this.#blocks[index])) return;
        this.#committed = prefixes.add(this.#committed, tokens, index * blockTokens, this.#blocks[index]);
      } else {
        // Somebody computed the same meanwhile; one copy is enough, and what follows must hang on a block that is held.
        this.#pool.share(known.block);
        this.#replace(index, known.block);
        this.#committed = known;
      }
      this.#committedBlocks++;
    }
  }

  /**
   * What it holds turned out to be wrong: nobody finds it any more, whoever put it into the index. Others that hold some
   * of it keep that, and what they put after it is found by nobody either.
   */
  withdraw(): void {
    for (let node = this.#committed; node !== undefined; node = node.parent) this.#pool.prefixes?.remove(node);
  }

  /** A second table over the same blocks. */
  fork(): BlockTable {
    const twin = new BlockTable(this.#pool);
    for (const block of this.#blocks) this.#pool.share(block);
    twin.#append(this.#blocks);
    twin.#committed = this.#committed;
    twin.#committedBlocks = this.#committedBlocks;
    return twin;
  }

  /** Gives back the blocks that positions from `tokens` on would need; these may then be written anew. */
  truncate(tokens: number): void {
    this.#forgetCommitted(Math.floor(tokens / this.#pool.blockTokens));
    const kept = this.#blocksFor(tokens);
    if (kept >= this.#blocks.length) return;
    const given = this.#blocks.subarray(kept);
    this.#blocks = this.#storage.subarray(0, kept);
    this.#pool.give(given);
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
    this.#pool.give([replaced]);
  }

  /** Only the first `blocks` may still be what the index knows. */
  #forgetCommitted(blocks: number): void {
    while (this.#committedBlocks > blocks) {
      this.#committed = this.#committed?.parent;
      this.#committedBlocks--;
    }
  }
}
