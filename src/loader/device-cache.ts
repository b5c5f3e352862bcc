// The tensors that are on a device, and the eviction rule: a budget in bytes, least recently used first, never a tensor
// that a live plan has pinned. Hits and misses are counted to show what lazy loading does.

import type { LazyTensor, LazyTensorObserver } from "../tensor/lazy-tensor.js";

/** Hits, misses and evictions of a device cache. */
interface CacheCounts {
  readonly hits: number;
  readonly misses: number;
  /** Requests that joined a load in progress. */
  readonly shared: number;
  readonly evictions: number;
}

/** Pins tensors so that they are not evicted; disposing unpins all of them. */
export interface TensorPin extends Disposable {
  readonly tensors: readonly LazyTensor[];
}

/** The tensors on a device, evicted least recently used within a budget. */
export class DeviceCache implements LazyTensorObserver {
  readonly budgetBytes: number;
  /** Insertion order is recency: the first entry is the least recently used. */
  readonly #residentBytes = new Map<LazyTensor, number>();
  readonly #pins = new Map<LazyTensor, number>();
  /** Bytes reserved for loads in progress. */
  readonly #reservedBytes = new Map<LazyTensor, number>();
  #wake: (() => void)[] = [];
  #hits = 0;
  #misses = 0;
  #shared = 0;
  #evictions = 0;

  constructor(budgetBytes = Number.POSITIVE_INFINITY) {
    this.budgetBytes = budgetBytes;
  }

  get usedBytes(): number {
    return sum(this.#residentBytes.values());
  }

  get isLoading(): boolean {
    return this.#reservedBytes.size > 0;
  }

  /** The bytes of pinned tensors. */
  get pinnedBytes(): number {
    let total = 0;
    for (const tensor of this.#pins.keys()) total += this.#residentBytes.get(tensor) ?? 0;
    return total;
  }

  get tensorCount(): number {
    return this.#residentBytes.size;
  }

  get counts(): CacheCounts {
    return { hits: this.#hits, misses: this.#misses, shared: this.#shared, evictions: this.#evictions };
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
   * Reserves memory for a load about to start, evicting unpinned tensors if necessary. Returns how many bytes are
   * missing: 0 if the memory is reserved, until the tensor arrives or `release` is called. A request that cannot be met
   * evicts nothing.
   */
  reserve(tensor: LazyTensor, sizeBytes: number): number {
    const loadingBytes = sum(this.#reservedBytes.values());
    const missing = loadingBytes + this.pinnedBytes + sizeBytes - this.budgetBytes;
    if (missing > 0) return missing;
    for (const resident of this.#residentBytes.keys()) {
      if (this.usedBytes + loadingBytes + sizeBytes <= this.budgetBytes) break;
      resident.evict();
    }
    this.#reservedBytes.set(tensor, sizeBytes);
    return 0;
  }

  /** Returns the memory that was reserved for a load that failed. */
  release(tensor: LazyTensor): void {
    this.#reservedBytes.delete(tensor);
    this.#wakeWaiters();
  }

  /** Resolves when a load in progress has ended. */
  nextArrival(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  /** Evicts every tensor that no live plan has pinned; returns the bytes freed. */
  clear(): number {
    let freedBytes = 0;
    for (const tensor of this.#residentBytes.keys()) freedBytes += tensor.evict();
    return freedBytes;
  }

  /** Frees every tensor, pinned or not: none of them may be used any more. */
  close(): void {
    this.#pins.clear();
    this.clear();
  }

  onHit(tensor: LazyTensor): void {
    this.#hits++;
    const residentBytes = this.#residentBytes.get(tensor);
    if (residentBytes === undefined) return;
    this.#residentBytes.delete(tensor);
    this.#residentBytes.set(tensor, residentBytes);
  }

  onMiss(): void {
    this.#misses++;
  }

  onShared(): void {
    this.#shared++;
  }

  onResident(tensor: LazyTensor): void {
    this.#residentBytes.set(tensor, tensor.resident?.residentBytes ?? 0);
    this.release(tensor);
  }

  onEvicted(tensor: LazyTensor): void {
    this.#residentBytes.delete(tensor);
    this.#evictions++;
  }

  mayEvict(tensor: LazyTensor): boolean {
    return !this.#pins.has(tensor);
  }

  #unpin(tensor: LazyTensor): void {
    const pins = (this.#pins.get(tensor) ?? 0) - 1;
    if (pins <= 0) this.#pins.delete(tensor);
    else this.#pins.set(tensor, pins);
  }

  #wakeWaiters(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const resolve of waiting) resolve();
  }
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
