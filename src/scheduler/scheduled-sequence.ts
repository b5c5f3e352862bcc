// One sequence as the scheduler sees it: its tokens, how many are computed, its block table and its queue position.
// Invariant: `computed` positions are in the cache; a sequence that is not running holds no block.

import type { BlockPool } from "../kv-cache/block-pool.js";
import { BlockTable } from "../kv-cache/block-table.js";

const FIRST_CAPACITY = 64;
/** Steps that one priority more is worth: a sequence goes before those that came up to this many steps earlier. */
const AGEING_STEPS = 512;

export interface SequenceOptions {
  readonly tokens: Int32Array;
  /** The most tokens the sequence may grow to. */
  readonly capacityTokens: number;
  /** Sequences of a higher priority go first, but not before those that have waited much longer. */
  readonly priority: number;
  /** Sequences that come of it by forking, itself included; slots are reserved for all of them. */
  readonly slots: number;
  /**
   * Scores a given text instead of extending it: this token and every one after it has an output row, and no prefix is
   * taken from the cache. Undefined: only the last token has an output row.
   */
  readonly firstOutput?: number;
}

type SequenceState = "queued" | "running" | "ended";

/**
 * The order of a sequence among others. It never changes, so that a sequence that waits long enough is overtaken no
 * more.
 */
interface QueuePosition {
  readonly priority: number;
  /** The step in which the sequence was submitted, less the worth of its priority; the lowest goes first. */
  readonly turn: number;
  /** Tells sequences of the same turn apart: the earliest goes first. */
  readonly arrival: number;
  /** Tells sequences apart that were forked from one another. */
  readonly fork: number;
}

export class ScheduledSequence {
  readonly queuePosition: QueuePosition;
  readonly capacityTokens: number;
  readonly promptTokens: number;
  /** The first token with an output row of a sequence that is scored; undefined for one that is extended. */
  readonly firstOutput: number | undefined;
  state: SequenceState = "queued";
  slots: number;
  table: BlockTable;
  computed = 0;
  /** False while the mask of the next output is unknown; every token before it can be computed. */
  isReady = true;
  /** Prompt tokens that were found in the prefix cache. */
  cachedTokens = 0;
  preemptions = 0;
  /** The last step that computed a part of the sequence, or the step before it was admitted. */
  servedStep = 0;
  #tokens: Int32Array;
  #length: number;

  constructor(options: SequenceOptions, place: QueuePosition, pool: BlockPool) {
    const { tokens, capacityTokens, slots, firstOutput } = options;
    this.queuePosition = place;
    this.capacityTokens = capacityTokens;
    this.promptTokens = tokens.length;
    this.slots = slots;
    this.firstOutput = firstOutput;
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

  /** Tokens that are known and not computed yet. */
  get remaining(): number {
    return this.#length - this.computed;
  }

  /** Whether each step takes one token in and gives one out. */
  get isDecoding(): boolean {
    return this.remaining === 1 && this.firstOutput === undefined;
  }

  /** Output rows among the next `count` tokens to compute. */
  outputsOf(count: number): number {
    if (this.firstOutput === undefined) return count === this.remaining ? 1 : 0;
    return Math.max(0, Math.min(count, this.computed + count - this.firstOutput));
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

  /** Takes blocks of the tokens that come next from the prefix cache. */
  adopt(): void {
    if (this.firstOutput !== undefined || this.computed !== this.table.committedTokens) return;
    const gained = this.table.reusePrefix(this.tokens);
    // A prefix that was lost by preemption and found again was computed once.
    if (this.preemptions === 0) this.cachedTokens += Math.max(0, Math.min(gained, this.promptTokens - this.computed));
    this.computed += gained;
  }

  /** Gives its blocks back; what is not in the prefix cache by then has to be computed again. */
  release(): void {
    this.table[Symbol.dispose]();
    this.computed = 0;
  }
}

export function queuePositionAt(step: number, priority: number, arrival: number): QueuePosition {
  return { priority, turn: step - priority * AGEING_STEPS, arrival, fork: 0 };
}

/** Negative if `left` goes first. */
export function compareQueuePositions(left: QueuePosition, right: QueuePosition): number {
  return left.turn - right.turn || left.arrival - right.arrival || left.fork - right.fork;
}
