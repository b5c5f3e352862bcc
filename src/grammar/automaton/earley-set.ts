// An Earley set: all that a grammar may be in the middle of after some text. Sets are interned by their kernel (the items
// that the last byte led to), so that the same situation is the same object, however the text came to it: edges between
// sets and masks of sets are computed once.

import type { Loop } from "./loops.js";

/** A state of the network, inside a rule that was called at a set, with the count of its innermost repetition. */
export interface Item {
  readonly state: number;
  /** Undefined inside the root rule. */
  readonly origin: EarleySet | undefined;
  readonly count: number;
}

export class EarleySet {
  readonly id: number;
  readonly kernel: readonly Item[];
  /** The items that read bytes. */
  readonly scanning: Item[] = [];
  /** Where rules that were called here go on. */
  readonly returns = new Map<number, Item[]>();
  /** Whether the text may end. */
  accepting = false;
  /** By class of byte: the next set, or null if there is none; undefined is not known yet. */
  readonly next: (EarleySet | null | undefined)[] = [];
  /** Of a large set, by class of byte: where its items lead. */
  targets: (Item[] | undefined)[] | undefined;
  /** See loops.ts. */
  loop: Loop | undefined;

  constructor(id: number, kernel: readonly Item[]) {
    this.id = id;
    this.kernel = kernel;
  }
}
