// An Earley set: all positions that a grammar may be in after some text. Sets are interned by their kernel (the items
// that the last byte led to), so that equal situations are the same object, whatever the text was: edges between sets
// and masks of sets are computed once.

import type { Loop } from "./loops.js";

/** A state of the network, inside a rule that was called at a set, with the count of its innermost repetition. */
export interface EarleyItem {
  readonly state: number;
  /** Undefined inside the root rule. */
  readonly origin: EarleySet | undefined;
  readonly count: number;
}

/** An interned Earley set. */
export class EarleySet {
  readonly id: number;
  readonly kernel: readonly EarleyItem[];
  /** Items whose state reads a byte. */
  readonly scanning: EarleyItem[] = [];
  /** Items that continue after a rule that was called in this set, by rule; undefined if none was called. */
  returns: Map<number, EarleyItem[]> | undefined;
  /** Whether the text may end in this set. */
  accepting = false;
  /** The next set by byte class, null if there is none; undefined if it has not been computed yet. */
  readonly next: (EarleySet | null | undefined)[] = [];
  /** For a large set, the items after a byte, by its class. */
  targets: (EarleyItem[] | undefined)[] | undefined;
  /** The characters that the set takes any number of; see loops.ts. */
  loop: Loop | undefined;

  constructor(id: number, kernel: readonly EarleyItem[], classCount: number) {
    this.id = id;
    this.kernel = kernel;
    // All at once: an array that grows with every class leaves garbage.
    this.next.length = classCount;
  }

  /** Keeps where to continue after a rule that is called in this set. */
  addReturn(rule: number, back: EarleyItem): void {
    this.returns ??= new Map();
    const known = this.returns.get(rule);
    if (known === undefined) this.returns.set(rule, [back]);
    else known.push(back);
  }
}
