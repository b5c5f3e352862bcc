// The tokens still in the running for one position, ranked no further than anybody asks.
// Ranking is a heap sort that stops early: the heap sits at the front of the arrays and the ranked tokens grow
// from the end, so the r-th best is at end - 1 - r. Top-k of 150,000 costs one heap build and k pops, a nucleus
// pops until its mass is reached, and no order of the input makes it slow; what a cut by value can drop goes in one pass
// before that, so a nucleus of a few costs no heap of the vocabulary. Order: logit down, then id up.
// Live tokens are always the `length` entries below `end`. Arrays are kept and reused from token to token.

import type { OutputRow } from "../backends/contract.js";

/** What a step hands the sampler, with mask and bias applied. */
export type SampleInput = Extract<OutputRow, { readonly kind: "candidates" | "logits" }>;

export class Candidates {
  ids = new Int32Array(0);
  logits = new Float64Array(0);
  /** A number that travels with each token: its unnormalised probability, or what a stage needs carried along. */
  weights = new Float64Array(0);
  #end = 0;
  #length = 0;
  #ranked = 0;
  #heaped = false;
  #indexIsId = false;

  get length(): number {
    return this.#length;
  }

  /** First index of the live tokens; the last is `end - 1`. */
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

  /** Empties the set and makes room; what is added next is unranked. */
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

  /** Changes the logits of a few tokens; only before anything is ranked. */
  adjust<Change>(changes: ReadonlyMap<number, Change>, apply: (logit: number, change: Change) => number): void {
    if (this.#indexIsId) {
      for (const [id, change] of changes) if (id < this.#length) this.logits[id] = apply(this.logits[id], change);
      return;
    }
    for (let index = 0; index < this.#length; index++) {
      const change = changes.get(this.ids[index]);
      if (change !== undefined) this.logits[index] = apply(this.logits[index], change);
    }
  }

  /** Forgets the tokens that a mask or a bias has ruled out; only before anything is ranked. */
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

  /** The token of the highest logit, of equals the one with the lowest id, found without ranking. */
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
   * Keeps the tokens of at least this logit in one pass, with their weights. False, and nothing changed, where that
   * would be fewer than `fewest`, or where the set has an order already, which a pass would lose.
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

  /** Keeps the best `count`. */
  keepBest(count: number): void {
    if (count >= this.#length) return;
    this.rank(count - 1);
    this.#length = count;
  }

  /** Drops the best `count`. */
  dropBest(count: number): void {
    if (count <= 0) return;
    this.rank(count - 1);
    this.#end -= count;
    this.#ranked -= count;
    this.#length -= count;
  }

  /** Fills `weights` with e^((logit - highest) / temperature) and gives their sum, which is at least 1. */
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
