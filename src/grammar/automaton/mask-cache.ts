// The masks of one vocabulary that were made so far, by the set that they belong to.

import type { EarleySet } from "./earley-set.js";

export interface KnownMask {
  readonly mask: Uint32Array;
  /** Whether any token may follow. */
  readonly some: boolean;
}

/** The masks used last; one of a vocabulary of 128,000 tokens is 16 KB. */
const MAX_MASKS = 1024;

export class MaskCache {
  readonly #masks = new Map<EarleySet, KnownMask>();

  get(set: EarleySet): KnownMask | undefined {
    const known = this.#masks.get(set);
    if (known === undefined) return undefined;
    this.#masks.delete(set);
    this.#masks.set(set, known);
    return known;
  }

  set(set: EarleySet, mask: KnownMask): void {
    this.#masks.set(set, mask);
    if (this.#masks.size <= MAX_MASKS) return;
    const [oldest] = this.#masks.keys();
    if (oldest !== undefined) this.#masks.delete(oldest);
  }
}
