// The tokens that can still be chosen for one position, ranked only as far as needed. Ranking is a heap sort that stops
// early: the heap is at the front of the arrays and the ranked tokens grow from the end, so the token of rank r is at
// end - 1 - r. Top-k of 150,000 costs one heap build and k pops, top-p pops until its probability is reached, and no
// order of the input is slow. Tokens that a threshold excludes are removed in one pass before, so a nucleus of a few
// tokens needs no heap of the vocabulary. Order: highest logit, then lowest id. Live tokens are always the `length`
// entries below `end`. The arrays are reused from token to token.

import type { OutputRow } from "../backends/contract.js";

/** The output row that the sampler chooses from, with mask and bias applied. */
export type SampleInput = Extract<OutputRow, { readonly kind: "candidates" | "logits" }>;

/** The tokens that can still be chosen for one position. */
export class Candidates {
  ids = new Int32Array(0);
  logits = new Float64Array(0);
  /** A number per token: its unnormalised probability, or a value that a stage needs. */
  weights = new Float64Array(0);
  #end = 0;
  #length = 0;
  #ranked = 0;
  #heaped = false;
  #indexIsId = false;

  get length(): number {
    return this.#length;
  }

  /** The first index of the live tokens; the last is `end - 1`. */
  get start(): number {
    return this.#end - this.#length;
  }

  get end(): number {
    return this.#end;
  }

  load(input: SampleInput): void {
    this.clear(input.logits.length);
    this.logits.set(input.logits);
    if (input.kind === "candidates") this.ids.set(input.ids.subarray(0, input.logits.length));
    else for (let id = 0; id < input.logits.length; id++) this.ids[id] = id;
    this.#length = this.#end = input.logits.length;
    this.#indexIsId = input.kind === "logits";
  }

  /** Removes all tokens and allocates capacity; tokens added next are unranked. */
  clear(capacity: number): void {
    if (this.ids.length < capacity) {
      this.ids = new Int32Array(capacity);
      this.logits = new Float64Array(capacity);
      this.weights = new Float64Array(capacity);
    }
    this.#length = this.#end = this.#ranked = 0;
    this.#heaped = this.#indexIsId = false;
  }

  add(id: number, logit: number, weight: number): void {
    this.ids[this.#end] = id;
    this.logits[this.#end] = logit;
    this.weights[this.#end] = weight;
    this.#end += 1;
    this.#length += 1;
  }

  /**
   * Changes the logits of a few tokens, given by ascending ids, each by its place among them; only before anything is
   * ranked.
   */
  adjust(ids: Int32Array, change: (logit: number, place: number) => number): void {
    if (this.#indexIsId) {
      for (const [place, id] of ids.entries()) if (id < this.#length) this.logits[id] = change(this.logits[id], place);
      return;
    }
    for (let index = 0; index < this.#length; index++) {
      const place = placeOf(ids, this.ids[index]);
      if (place >= 0) this.logits[index] = change(this.logits[index], place);
    }
  }

  /** Removes the tokens that a mask or a bias has excluded; only before anything is ranked. */
  dropImpossible(): void {
    let kept = 0;
    for (let index = 0; index < this.#length; index++) {
      if (this.logits[index] === Number.NEGATIVE_INFINITY) continue;
      this.logits[kept] = this.logits[index];
      this.ids[kept] = this.ids[index];
      kept += 1;
    }
    if (kept !== this.#length) this.#indexIsId = false;
    this.#length = this.#end = kept;
  }

  /** The token with the highest logit, the lowest id among equals, found without ranking. */
  best(): number {
    let best = this.start;
    for (let index = best + 1; index < this.#end; index++) if (this.#precedes(index, best)) best = index;
    return this.ids[best];
  }

  /** The index of the token of this rank, 0 being the best; ranks must be below `length`. */
  rank(rank: number): number {
    if (!this.#heaped) this.#heapify();
    while (this.#ranked <= rank) {
      const heapLength = this.#end - this.#ranked;
      this.#swap(0, heapLength - 1);
      this.#ranked += 1;
      this.#sink(0, heapLength - 1);
    }
    return this.#end - 1 - rank;
  }

  /** The highest logit, found without ranking. */
  highest(): number {
    if (this.#heaped) return this.logits[this.rank(0)];
    let highest = Number.NEGATIVE_INFINITY;
    for (let index = 0; index < this.#end; index++) if (this.logits[index] > highest) highest = this.logits[index];
    return highest;
  }

  /**
   * Keeps the tokens with at least this logit in one pass, with their weights. Returns false, and changes nothing, if
   * fewer than `fewest` would remain, or if the set is already ranked, because a pass would lose the order.
   */
  keepFrom(logit: number, fewest: number): boolean {
    if (this.#heaped) return false;
    let count = 0;
    for (let index = 0; index < this.#end; index++) if (this.logits[index] >= logit) count += 1;
    if (count < fewest) return false;
    let kept = 0;
    for (let index = 0; index < this.#end; index++) {
      if (!(this.logits[index] >= logit)) continue;
      this.ids[kept] = this.ids[index];
      this.logits[kept] = this.logits[index];
      this.weights[kept] = this.weights[index];
      kept += 1;
    }
    this.#length = this.#end = kept;
    this.#indexIsId = false;
    return true;
  }

  /** Keeps the `count` best tokens. */
  keepBest(count: number): void {
    if (count >= this.#length) return;
    this.rank(count - 1);
    this.#length = count;
  }

  /** Removes the `count` best tokens. */
  dropBest(count: number): void {
    if (count <= 0) return;
    this.rank(count - 1);
    this.#end -= count;
    this.#ranked -= count;
    this.#length -= count;
  }

  /** Sets `weights` to e^((logit - highest) / temperature) and returns their sum, which is at least 1. */
  weigh(temperature: number): number {
    const highest = this.highest();
    let total = 0;
    for (let index = this.start; index < this.#end; index++) {
      const weight = Math.exp((this.logits[index] - highest) / temperature);
      this.weights[index] = weight;
      total += weight;
    }
    return total;
  }

  #precedes(left: number, right: number): boolean {
    const difference = this.logits[left] - this.logits[right];
    return difference > 0 || (difference === 0 && this.ids[left] < this.ids[right]);
  }

  #heapify(): void {
    for (let node = (this.#end >> 1) - 1; node >= 0; node--) this.#sink(node, this.#end);
    this.#heaped = true;
  }

  #sink(from: number, heapLength: number): void {
    let node = from;
    for (;;) {
      let child = 2 * node + 1;
      if (child >= heapLength) return;
      if (child + 1 < heapLength && this.#precedes(child + 1, child)) child += 1;
      if (!this.#precedes(child, node)) return;
      this.#swap(child, node);
      node = child;
    }
  }

  #swap(left: number, right: number): void {
    const { ids, logits, weights } = this;
    const id = ids[left];
    const logit = logits[left];
    const weight = weights[left];
    ids[left] = ids[right];
    logits[left] = logits[right];
    weights[left] = weights[right];
    ids[right] = id;
    logits[right] = logit;
    weights[right] = weight;
  }
}

/** The place of a number among ascending ones, or -1. */
function placeOf(ascending: Int32Array, wanted: number): number {
  let [first, end] = [0, ascending.length];
  while (first < end) {
    const middle = (first + end) >> 1;
    if (ascending[middle] < wanted) first = middle + 1;
    else end = middle;
  }
  return ascending[first] === wanted ? first : -1;
}
