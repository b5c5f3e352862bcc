// A binary heap of proposed merges, lowest priority value first and leftmost among equals, which is the order that
// both tokenizer families merge in. Invariant: entries are never removed but by `pop`; the caller recognises those
// that an earlier merge made stale by their `tag`.

const FIRST_CAPACITY = 64;
export const NO_NEIGHBOUR = -1;

/** A row of symbols as a doubly linked list, so that a merge takes one out in constant time. */
export function chain(count: number): { readonly previous: Int32Array; readonly nexts: Int32Array } {
  const previous = new Int32Array(count);
  const nexts = new Int32Array(count);
  for (let index = 0; index < count; index++) {
    previous[index] = index - 1;
    nexts[index] = index + 1;
  }
  if (count > 0) nexts[count - 1] = NO_NEIGHBOUR;
  return { previous, nexts };
}

export class MergeQueue {
  /** The entry that `pop` took. */
  left = 0;
  tag = 0;

  #length = 0;
  #priorities = new Float64Array(FIRST_CAPACITY);
  #lefts = new Int32Array(FIRST_CAPACITY);
  #tags = new Int32Array(FIRST_CAPACITY);

  push(priority: number, left: number, tag: number): void {
    if (this.#length === this.#priorities.length) this.#grow();
    let hole = this.#length++;
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      if (!this.#isBefore(priority, left, parent)) break;
      this.#move(parent, hole);
      hole = parent;
    }
    this.#put(hole, priority, left, tag);
  }

  /** Takes the first entry into `left` and `tag`; false when there is none. */
  pop(): boolean {
    if (this.#length === 0) return false;
    this.left = this.#lefts[0] as number;
    this.tag = this.#tags[0] as number;
    const last = --this.#length;
    const priority = this.#priorities[last] as number;
    const left = this.#lefts[last] as number;
    const tag = this.#tags[last] as number;
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= last) break;
      const right = child + 1;
      if (right < last && this.#isBefore(this.#priorities[right] as number, this.#lefts[right] as number, child)) child = right;
      if (this.#isBefore(priority, left, child)) break;
      this.#move(child, hole);
      hole = child;
    }
    this.#put(hole, priority, left, tag);
    return true;
  }

  #isBefore(priority: number, left: number, other: number): boolean {
    const otherPriority = this.#priorities[other] as number;
    return priority < otherPriority || (priority === otherPriority && left < (this.#lefts[other] as number));
  }

  #move(from: number, to: number): void {
    this.#priorities[to] = this.#priorities[from] as number;
    this.#lefts[to] = this.#lefts[from] as number;
    this.#tags[to] = this.#tags[from] as number;
  }

  #put(at: number, priority: number, left: number, tag: number): void {
    this.#priorities[at] = priority;
    this.#lefts[at] = left;
    this.#tags[at] = tag;
  }

  #grow(): void {
    const capacity = this.#length * 2;
    const priorities = new Float64Array(capacity);
    const lefts = new Int32Array(capacity);
    const tags = new Int32Array(capacity);
    priorities.set(this.#priorities);
    lefts.set(this.#lefts);
    tags.set(this.#tags);
    this.#priorities = priorities;
    this.#lefts = lefts;
    this.#tags = tags;
  }
}
