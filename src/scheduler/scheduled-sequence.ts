// One sequence as the scheduler sees it: its tokens, how many of them are computed, its blocks and its place in line.
// Invariant: `computed` positions are in the cache; a sequence that is not running holds no block.

import type { BlockPool } from "../kv-cache/block-pool.js";
import { BlockTable } from "../kv-cache/block-table.js";

const FIRST_CAPACITY = 64;
/** What one priority more is worth: it goes before those that came up to so many steps earlier, and before no others. */
const AGEING_STEPS = 512;

export interface SequenceOptions {
  readonly tokens: Int32Array;
  /** The most tokens it may come to. */
  readonly capacityTokens: number;
  /** Higher ones go first, before those that have not waited much longer. */
  readonly priority: number;
  /** Sequences that will come of it by forking, itself included; places are kept for all of them. */
  readonly slots: number;
  /** An output row is wanted of every token, and not of the last alone: then nothing can be taken from the cache. */
  readonly everyRow: boolean;
}

export type SequenceState = "queued" | "running" | "ended";

/** Where a sequence stands in line. It never moves, so whoever waits long enough is overtaken by nobody. */
export interface Place {
  readonly priority: number;
  /** The step that it came in, less what its priority is worth; the lowest goes first, */
  readonly turn: number;
  /** and of equals the earliest. */
  readonly arrival: number;
  /** Tells those that were forked from one another apart. */
  readonly fork: number;
}

export class ScheduledSequence {
  readonly place: Place;
  readonly capacityTokens: number;
  readonly promptTokens: number;
  readonly everyRow: boolean;
  state: SequenceState = "queued";
  slots: number;
  table: BlockTable;
  computed = 0;
  /** False while nobody can say what is wanted of the next output; everything before it can be computed. */
  isReady = true;
  /** Of the prompt, what others had computed. */
  cachedTokens = 0;
  preemptions = 0;
  /** The step that last held a part of it, or the one before it began to run. */
  servedStep = 0;
  #tokens: Int32Array;
  #length: number;

  constructor(options: SequenceOptions, place: Place, pool: BlockPool) {
    const { tokens, capacityTokens, slots, everyRow } = options;
    this.place = place;
    this.capacityTokens = capacityTokens;
    this.promptTokens = tokens.length;
    this.slots = slots;
    this.everyRow = everyRow;
    this.table = new BlockTable(pool);
    this.#tokens = Int32Array.from(tokens);
    this.#length = tokens.length;
  }

  get length(): number {
    return this.#length;
  }

  get tokens(): Int32Array {
    return this.#tokens.subarray(0, this.#length);
  }

  /** Tokens that are known and not computed. */
  get remaining(): number {
    return this.#length - this.computed;
  }

  /** One token goes in and one comes out of each step. */
  get isWriting(): boolean {
    return this.remaining === 1 && !this.everyRow;
  }

  push(token: number): void {
    if (this.#length >= this.capacityTokens)
      throw new RangeError(`a sequence of ${this.capacityTokens} tokens is full`);
    if (this.#length === this.#tokens.length) {
      const larger = new Int32Array(Math.min(this.capacityTokens, Math.max(FIRST_CAPACITY, this.#length * 2)));
      larger.set(this.#tokens);
      this.#tokens = larger;
    }
    this.#tokens[this.#length++] = token;
  }

  /** Takes what others have computed of the tokens that come next. */
  adopt(): void {
    if (this.everyRow || this.computed !== this.table.committedTokens) return;
    const gained = this.table.reusePrefix(this.tokens);
    // What was lost and found again was computed once.
    if (this.preemptions === 0) this.cachedTokens += Math.max(0, Math.min(gained, this.promptTokens - this.computed));
    this.computed += gained;
  }

  /** Gives its blocks back; what it had computed has to be computed again, as far as nobody kept it. */
  release(): void {
    this.table[Symbol.dispose]();
    this.computed = 0;
  }
}

export function placeAt(step: number, priority: number, arrival: number): Place {
  return { priority, turn: step - priority * AGEING_STEPS, arrival, fork: 0 };
}

/** Negative where `left` goes first. */
export function comparePlaces(left: Place, right: Place): number {
  return left.turn - right.turn || left.arrival - right.arrival || left.fork - right.fork;
}
