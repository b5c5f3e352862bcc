// The tensors that are on a device now, and the rule for who may stay: a budget, least recently used out first, and
// never a tensor that a live plan holds. Counting hits and misses is what makes laziness visible.

import type { LazyTensor } from "../tensor/lazy-tensor.js";

export interface CacheCounts {
  readonly hits: number;
  readonly misses: number;
  /** Requests that joined a load already under way. */
  readonly shared: number;
  readonly evictions: number;
}

/** Holding on to tensors; disposing lets go of them all. */
export interface TensorPin extends Disposable {
  readonly tensors: readonly LazyTensor[];
}

export class DeviceCache {
  readonly budgetBytes: number;
  /** Insertion order is recency: the first is the least recently used. */
  readonly #residentBytes = new Map<LazyTensor, number>();
  readonly #pins = new Map<LazyTensor, number>();
  #usedBytes = 0;
  #reservedBytes = 0;
  #hits = 0;
  #misses = 0;
  #shared = 0;
  #evictions = 0;

  constructor(budgetBytes = Number.POSITIVE_INFINITY) {
    this.budgetBytes = budgetBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get tensorCount(): number {
    return this.#residentBytes.size;
  }

  get counts(): CacheCounts {
    return { hits: this.#hits, misses: this.#misses, shared: this.#shared, evictions: this.#evictions };
  }

  countHit(tensor: LazyTensor): void {
    this.#hits++;
    const residentBytes = this.#residentBytes.get(tensor);
    if (residentBytes === undefined) return;
    this.#residentBytes.delete(tensor);
    this.#residentBytes.set(tensor, residentBytes);
  }

  countMiss(): void {
    this.#misses++;
  }

  countShared(): void {
    this.#shared++;
  }

  pin(tensors: readonly LazyTensor[]): TensorPin {
    for (const tensor of tensors) this.#pins.set(tensor, (this.#pins.get(tensor) ?? 0) + 1);
    let held = true;
    return {
      tensors,
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        for (const tensor of tensors) this.#unpin(tensor);
      },
    };
  }

  /**
   * Sets room aside for a load about to start, evicting what nobody holds. Returns how many bytes are missing: 0 when
   * the room is reserved, and then `admit` or `release` must follow.
   */
  reserve(sizeBytes: number): number {
    for (const tensor of this.#residentBytes.keys()) {
      if (this.#missing(sizeBytes) === 0) break;
      if (!this.#pins.has(tensor)) this.#evict(tensor);
    }
    const missing = this.#missing(sizeBytes);
    if (missing === 0) this.#reservedBytes += sizeBytes;
    return missing;
  }

  admit(tensor: LazyTensor, reservedBytes: number, residentBytes: number): void {
    this.#reservedBytes -= reservedBytes;
    this.#usedBytes += residentBytes;
    this.#residentBytes.set(tensor, residentBytes);
  }

  release(reservedBytes: number): void {
    this.#reservedBytes -= reservedBytes;
  }

  /** Evicts every tensor that no live plan holds; returns the bytes freed. */
  clear(): number {
    let freedBytes = 0;
    for (const tensor of this.#residentBytes.keys()) {
      if (!this.#pins.has(tensor)) freedBytes += this.#evict(tensor);
    }
    return freedBytes;
  }

  #missing(sizeBytes: number): number {
    return Math.max(0, this.#usedBytes + this.#reservedBytes + sizeBytes - this.budgetBytes);
  }

  #evict(tensor: LazyTensor): number {
    const residentBytes = this.#residentBytes.get(tensor) ?? 0;
    this.#residentBytes.delete(tensor);
    this.#usedBytes -= residentBytes;
    this.#evictions++;
    tensor.evict();
    return residentBytes;
  }

  #unpin(tensor: LazyTensor): void {
    const pins = (this.#pins.get(tensor) ?? 1) - 1;
    if (pins === 0) this.#pins.delete(tensor);
    else this.#pins.set(tensor, pins);
  }
}
