// Merges neighbours in a row of symbols, the pair with the lowest priority value first and leftmost among equals, until
// no pair is left: the loop that both tokenizer families share. Invariants: short rows, which are nearly all, are
// scanned without allocating; longer ones cost n log n, so that a megabyte without a space is no attack.

/**
 * What merging means in a tokenizer family. `left` and `right` are indices in the row; a merged symbol stays at `left`.
 */
interface MergeRules {
  /** The pair's priority, or `NEVER`. */
  priorityOf(left: number, right: number): number;
  join(left: number, right: number, priority: number): void;
}

/** The scratch space for symbols that encoders keep between words; that of a longer word is freed. */
export const KEPT_SYMBOLS = 1024;
/** The priority of a pair that is never merged. */
export const NEVER = Infinity;
/** The index after the last symbol of a row. */
export const ROW_END = -1;
/** Up to this length, scanning the row for every merge is faster than a heap. */
const SHORT_ROW = 32;

/** Merges neighbouring symbols in order of priority. */
export class NeighbourMerger {
  readonly #rules: MergeRules;
  #priorities = new Float64Array(SHORT_ROW);
  #nexts = new Int32Array(SHORT_ROW);

  constructor(rules: MergeRules) {
    this.#rules = rules;
  }

  /**
   * Merges the row; returns the index that follows each remaining index, `ROW_END` after the last. Valid until the next
   * call.
   */
  merge(count: number): Int32Array {
    const long = count > SHORT_ROW;
    // The arrays of a long row are not kept: one huge prompt must not occupy memory permanently.
    const priorities = long ? new Float64Array(count) : this.#priorities;
    const nexts = long ? new Int32Array(count) : this.#nexts;
    for (let place = 0; place < count; place++) {
      const last = place + 1 === count;
      nexts[place] = last ? ROW_END : place + 1;
      priorities[place] = last ? NEVER : this.#rules.priorityOf(place, place + 1);
    }
    if (long) this.#mergeByHeap(count, priorities, nexts);
    else if (count > 1) this.#mergeByScan(priorities, nexts);
    return nexts;
  }

  #mergeByScan(priorities: Float64Array, nexts: Int32Array): void {
    const rules = this.#rules;
    for (;;) {
      let lowest = NEVER;
      let left = ROW_END;
      let before = ROW_END;
      for (let place = 0, previous = ROW_END; place !== ROW_END; previous = place, place = nexts[place] as number) {
        const priority = priorities[place] as number;
        if (priority < lowest) {
          lowest = priority;
          left = place;
          before = previous;
        }
      }
      if (left === ROW_END) return;
      const right = nexts[left] as number;
      rules.join(left, right, lowest);
      const next = nexts[right] as number;
      nexts[left] = next;
      priorities[left] = next === ROW_END ? NEVER : rules.priorityOf(left, next);
      if (before !== ROW_END) priorities[before] = rules.priorityOf(before, left);
    }
  }

  #mergeByHeap(count: number, priorities: Float64Array, nexts: Int32Array): void {
    const rules = this.#rules;
    const heap = new MergeHeap();
    const propose = (left: number): void => {
      const priority = priorities[left] as number;
      if (priority < NEVER) heap.push(priority, left);
    };
    const previous = new Int32Array(count);
    for (let place = 0; place < count; place++) {
      previous[place] = place - 1;
      propose(place);
    }
    while (heap.pop()) {
      const { left, priority } = heap;
      // The pair has changed since it was added; if the new pair has the same priority, that was added too.
      if (priorities[left] !== priority) continue;
      const right = nexts[left] as number;
      rules.join(left, right, priority);
      priorities[right] = NEVER;
      const next = nexts[right] as number;
      nexts[left] = next;
      if (next !== ROW_END) previous[next] = left;
      priorities[left] = next === ROW_END ? NEVER : rules.priorityOf(left, next);
      propose(left);
      const before = previous[left] as number;
      if (before === ROW_END) continue;
      priorities[before] = rules.priorityOf(before, left);
      propose(before);
    }
  }
}

/** A binary heap of indices, ordered by priority and then by index. */
class MergeHeap {
  /** The priority of the index that `pop` returned. */
  priority = 0;
  left = 0;
  #length = 0;
  #priorities = new Float64Array(2 * SHORT_ROW);
  #lefts = new Int32Array(2 * SHORT_ROW);

  push(priority: number, left: number): void {
    if (this.#length === this.#lefts.length) this.#grow();
    let hole = this.#length++;
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      if (!this.#isBefore(priority, left, parent)) break;
      this.#put(hole, this.#priorities[parent] as number, this.#lefts[parent] as number);
      hole = parent;
    }
    this.#put(hole, priority, left);
  }

  pop(): boolean {
    if (this.#length === 0) return false;
    this.priority = this.#priorities[0] as number;
    this.left = this.#lefts[0] as number;
    const last = --this.#length;
    const priority = this.#priorities[last] as number;
    const left = this.#lefts[last] as number;
    let hole = 0;
    for (let child = 1; child < last; child = 2 * hole + 1) {
      const right = child + 1;
      if (right < last && this.#isBefore(this.#priorities[right] as number, this.#lefts[right] as number, child))
        child = right;
      if (this.#isBefore(priority, left, child)) break;
      this.#put(hole, this.#priorities[child] as number, this.#lefts[child] as number);
      hole = child;
    }
    this.#put(hole, priority, left);
    return true;
  }

  #isBefore(priority: number, left: number, other: number): boolean {
    const otherPriority = this.#priorities[other] as number;
    return priority < otherPriority || (priority === otherPriority && left < (this.#lefts[other] as number));
  }

  #put(at: number, priority: number, left: number): void {
    this.#priorities[at] = priority;
    this.#lefts[at] = left;
  }

  #grow(): void {
    const priorities = new Float64Array(2 * this.#length);
    const lefts = new Int32Array(2 * this.#length);
    priorities.set(this.#priorities);
    lefts.set(this.#lefts);
    this.#priorities = priorities;
    this.#lefts = lefts;
  }
}
