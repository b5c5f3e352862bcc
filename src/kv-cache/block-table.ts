// The blocks of one sequence, in order of position. Grows as the sequence does; disposing gives all blocks back.

import type { BlockPool } from "./block-pool.js";

export class BlockTable implements Disposable {
  readonly #pool: BlockPool;
  #blocks: Int32Array = new Int32Array();

  constructor(pool: BlockPool) {
    this.#pool = pool;
  }

  get blocks(): Int32Array {
    return this.#blocks;
  }

  get capacityTokens(): number {
    return this.#blocks.length * this.#pool.blockTokens;
  }

  /** Makes room for positions 0 to `tokens` − 1; false, and nothing changed, when the pool has too few blocks. */
  reserve(tokens: number): boolean {
    const missing = Math.ceil(tokens / this.#pool.blockTokens) - this.#blocks.length;
    if (missing <= 0) return true;
    const taken = this.#pool.take(missing);
    if (taken === undefined) return false;
    const blocks = new Int32Array(this.#blocks.length + taken.length);
    blocks.set(this.#blocks);
    blocks.set(taken, this.#blocks.length);
    this.#blocks = blocks;
    return true;
  }

  /** Gives back the blocks that positions from `tokens` on would need. */
  truncate(tokens: number): void {
    const kept = Math.ceil(tokens / this.#pool.blockTokens);
    this.#pool.give(this.#blocks.subarray(kept));
    this.#blocks = this.#blocks.slice(0, kept);
  }

  [Symbol.dispose](): void {
    this.truncate(0);
  }
}
