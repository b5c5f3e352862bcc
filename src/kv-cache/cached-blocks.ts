// The blocks of one pool whose contents the prefix index knows: KV blocks of a cache group, or state slots. Those that no
// table references wait in least-recently-used order until they are referenced again or evicted. A block has a place
// for each content that is found by itself: a full block, and checkpoints that end within it.

interface Content<Place> {
  readonly place: Place;
  /** Leading positions of the block that belong to it. */
  readonly filled: number;
}

class Entry<Place> {
  isWaiting = false;
  older: Entry<Place> | undefined;
  newer: Entry<Place> | undefined;
  readonly contents: Content<Place>[] = [];

  constructor(readonly block: number) {}
}

/** Blocks with known contents, each with its places in the prefix index. */
export class CachedBlocks<Place> {
  readonly #forget: (place: Place) => void;
  readonly #byBlock: (Entry<Place> | undefined)[] = [];
  #oldest: Entry<Place> | undefined;
  #newest: Entry<Place> | undefined;
  #waiting = 0;

  /** `forget` is called with each place of a block that is evicted or removed. */
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

  /** The number of leading positions with known contents, which must not be written; 0 if the index has none of them. */
  filled(block: number): number {
    const entry = this.#byBlock[block];
    let most = 0;
    if (entry !== undefined) for (const { filled } of entry.contents) most = Math.max(most, filled);
    return most;
  }

  /** Adds a place for the first `filled` positions of a block, which must be referenced. */
  add(block: number, place: Place, filled: number): void {
    const entry = this.#byBlock[block] ?? new Entry<Place>(block);
    if (entry.contents.some((content) => content.filled === filled))
      throw new RangeError(`block ${block} is in the index already`);
    entry.contents.push({ place, filled });
    this.#byBlock[block] = entry;
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

  /** Removes a block, referenced or not, with all of its places. */
  remove(block: number): void {
    const entry = this.#byBlock[block];
    if (entry !== undefined) this.#remove(entry);
  }

  /** Removes one place of a block, without `forget`. */
  removePlace(block: number, place: Place): void {
    const entry = this.#byBlock[block];
    const index = entry?.contents.findIndex((content) => content.place === place) ?? -1;
    if (entry === undefined || index < 0) return;
    entry.contents.splice(index, 1);
    if (entry.contents.length === 0) this.#remove(entry);
  }

  #remove(entry: Entry<Place>): void {
    if (entry.isWaiting) this.#unlink(entry);
    this.#byBlock[entry.block] = undefined;
    for (const { place } of entry.contents.splice(0)) this.#forget(place);
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
