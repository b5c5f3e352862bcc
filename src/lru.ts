// A least-recently-used cache, bounded by the number and by the weight of its entries. Every cache of this project that
// evicts by recency is one of these.

interface LruCacheOptions<Key, Value> {
  /** Maximum number of entries; unlimited by default. */
  readonly maxEntries?: number;
  /** Maximum total weight of the entries; unlimited by default. A single entry above it is not kept. */
  readonly maxWeight?: number;
  /** The weight of a value, which must not change while it is kept; 1 by default. */
  readonly weightOf?: (value: Value) => number;
  /** Called for every entry that is evicted, deleted, replaced or cleared. */
  readonly onRemove?: (value: Value, key: Key) => void;
}

/** Entries by key; the least recently used ones are evicted first. */
export class LruCache<Key, Value> {
  /** A Map keeps the order of insertion, and every use inserts its entry again: the first is the least recently used. */
  readonly #entries = new Map<Key, Value>();
  readonly #maxEntries: number;
  readonly #maxWeight: number;
  readonly #weightOf: (value: Value) => number;
  readonly #onRemove: (value: Value, key: Key) => void;
  #weight = 0;

  constructor({
    maxEntries = Infinity,
    maxWeight = Infinity,
    weightOf = () => 1,
    onRemove = () => {},
  }: LruCacheOptions<Key, Value> = {}) {
    this.#maxEntries = maxEntries;
    this.#maxWeight = maxWeight;
    this.#weightOf = weightOf;
    this.#onRemove = onRemove;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The weight of all entries together. */
  get weight(): number {
    return this.#weight;
  }

  /** The value of a key, which becomes the most recently used. */
  get(key: Key): Value | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  /** The value of a key, without using it. */
  peek(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  /** Adds or replaces an entry, as the most recently used, and evicts others if there are too many. */
  set(key: Key, value: Value): void {
    this.delete(key);
    const weight = this.#weightOf(value);
    if (weight > this.#maxWeight || this.#maxEntries === 0) return;
    while (this.#entries.size >= this.#maxEntries || this.#weight + weight > this.#maxWeight) this.evictOldest();
    this.#entries.set(key, value);
    this.#weight += weight;
  }

  /** Removes an entry; false if there is none. */
  delete(key: Key): boolean {
    const value = this.#entries.get(key);
    if (value === undefined) return false;
    this.#entries.delete(key);
    this.#weight -= this.#weightOf(value);
    this.#onRemove(value, key);
    return true;
  }

  /** Removes the least recently used entry, if there is any. */
  evictOldest(): void {
    for (const key of this.#entries.keys()) {
      this.delete(key);
      return;
    }
  }

  clear(): void {
    for (const key of this.#entries.keys()) this.delete(key);
  }

  /** Least recently used first. */
  values(): IterableIterator<Value> {
    return this.#entries.values();
  }
}
