// The masks of the sets that were asked for most recently. The memory of an evicted mask is used for the next one:
// allocating 16 KB for each made the garbage collector run in the middle of every hundredth mask.

import { LruCache } from "../../lru.js";
import type { EarleySet } from "./earley-set.js";

/** A mask that was computed before. */
interface KnownMask {
  readonly mask: Uint32Array;
  /** Whether any token may follow. */
  readonly some: boolean;
}

/** One of a vocabulary of 128,000 tokens is 16 KB. */
const MAX_MASKS = 1024;

/** The masks of the most recently used sets. */
export class MaskCache {
  readonly #words: number;
  readonly #masks = new LruCache<EarleySet, KnownMask>({
    maxEntries: MAX_MASKS,
    onRemove: ({ mask }) => {
      this.#unused = mask;
    },
  });
  #unused: Uint32Array | undefined;
  #added = 0;

  constructor(words: number) {
    this.#words = words;
  }

  /** Number of masks that were added so far, those that have been evicted included. */
  get added(): number {
    return this.#added;
  }

  /** The mask of a set, valid until the next one is added. */
  get(set: EarleySet): KnownMask | undefined {
    return this.#masks.get(set);
  }

  /** Keeps a copy of a mask. */
  add(set: EarleySet, mask: Uint32Array, some: boolean): void {
    // Evicts first, so that the memory of the oldest mask can be used.
    if (this.#masks.size === MAX_MASKS) this.#masks.evictOldest();
    const copy = this.#unused ?? new Uint32Array(this.#words);
    this.#unused = undefined;
    copy.set(mask.subarray(0, this.#words));
    this.#masks.set(set, { mask: copy, some });
    this.#added++;
  }
}
