// Who holds which block of a KV cache: pure bookkeeping, no storage. A block has one holder for now; sharing by prefix
// will count holders here, and nothing outside needs to know.

export class BlockPool {
  readonly blocks: number;
  readonly blockTokens: number;
  /** Free blocks, the next one to hand out last. */
  readonly #free: number[];
  readonly #held = new Set<number>();

  constructor(blocks: number, blockTokens: number) {
    this.blocks = blocks;
    this.blockTokens = blockTokens;
    this.#free = Array.from({ length: blocks }, (_, index) => blocks - 1 - index);
  }

  get freeBlocks(): number {
    return this.#free.length;
  }

  /** `count` blocks, or undefined when there are not that many: running out is an outcome, not an error. */
  take(count: number): readonly number[] | undefined {
    if (count > this.#free.length) return undefined;
    const taken = this.#free.splice(this.#free.length - count).toReversed();
    for (const block of taken) this.#held.add(block);
    return taken;
  }

  give(blocks: Iterable<number>): void {
    for (const block of blocks) {
      if (!this.#held.delete(block)) throw new RangeError(`block ${block} is not held`);
      this.#free.push(block);
    }
  }
}
