// The blocks of one cache group whose contents the prefix index knows. Those that no table references wait in
// least-recently-used order until they are referenced again or evicted.

class Entry<Place> {
  isWaiting = false;
  older: Entry<Place> | undefined;
  newer: Entry<Place> | undefined;

  constructor(
    readonly block: number,
    readonly place: Place,
  ) {}
}

/** Blocks with known contents, each with its place in the prefix index. */
export class CachedBlocks<Place> {
  readonly #forget: (place: Place) => void;
  readonly #byBlock: (Entry<Place> | undefined)[] = [];
  #oldest: Entry<Place> | undefined;
  #newest: Entry<Place> | undefined;
  #waiting = 0;

  /** `forget` is called with the place of a block that is evicted or removed. */
  constructor(forget: (place: Place) => void) {
    this.#forget = forget;
  }

  /** The number of blocks that no table references. */
  get waiting(): number {
    return this.#waiting;
  }

  has(block: number): boolean {
    return this.#byBlock[block] !== undefined;
  }

  /** Adds a block, which must be referenced. */
  add(block: number, place: Place): void {
    if (this.has(block)) throw new RangeError(`block ${block} is in the index already`);
    this.#byBlock[block] = new Entry(block, place);
  }

  /** Marks a block as unreferenced. False if the index does not know it. */
  release(block: number): boolean {
    const entry = this.#byBlock[block];
    if (entry === undefined) return false;
    entry.isWaiting = true;
    entry.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
    this.#waiting++;
    return true;
  }

  /** Marks a block as referenced again. */
  retain(block: number): void {
    const entry = this.#byBlock[block];
    if (entry?.isWaiting === true) this.#unlink(entry);
  }

  /** Removes the least recently used unreferenced block. */
  evict(): number | undefined {
    const entry = this.#oldest;
    if (entry !== undefined) this.#remove(entry);
    return entry?.block;
  }

  /** Removes a block, referenced or not, because its contents are wrong. */
  remove(block: number): void {
    const entry = this.#byBlock[block];
    if (entry !== undefined) this.#remove(entry);
  }

  #remove(entry: Entry<Place>): void {
    if (entry.isWaiting) this.#unlink(entry);
    this.#byBlock[entry.block] = undefined;
    this.#forget(entry.place);
  }

  #unlink(entry: Entry<Place>): void {
    if (entry.older === undefined) this.#oldest = entry.newer;
    else entry.older.newer = entry.newer;
    if (entry.newer === undefined) this.#newest = entry.older;
    else entry.newer.older = entry.older;
    entry.older = entry.newer = undefined;
    entry.isWaiting = false;
    this.#waiting--;
  }
}
