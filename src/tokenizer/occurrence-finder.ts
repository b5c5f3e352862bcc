// Finds which of many short byte strings occur in a text. The strings are sorted, and at each position of the text the
// range of strings that still match is narrowed byte by byte. Invariant: the time depends on the text and on the
// longest string, hardly on the number of strings or on their common prefixes.

/** A byte string with its id. */
interface NamedBytes {
  readonly id: number;
  readonly bytes: Uint8Array;
}

/** Finds which of many byte strings occur in a text. */
export class OccurrenceFinder {
  readonly #ids: Int32Array;
  /** All strings concatenated in sorted order; string i ends where i + 1 starts. */
  readonly #bytes: Buffer;
  readonly #starts: Uint32Array;
  /** The first string that begins with each byte, in sorted order. */
  readonly #firstOf = new Int32Array(257);

  constructor(strings: readonly NamedBytes[]) {
    const sorted = strings
      .filter(({ bytes }) => bytes.length > 0)
      .toSorted((left, right) => Buffer.compare(left.bytes, right.bytes));
    this.#ids = Int32Array.from(sorted, ({ id }) => id);
    this.#bytes = Buffer.concat(sorted.map(({ bytes }) => bytes));
    this.#starts = new Uint32Array(sorted.length + 1);
    for (const [index, { bytes }] of sorted.entries()) this.#starts[index + 1] = this.#starts[index] + bytes.length;
    for (let byte = 0; byte <= 256; byte++) this.#firstOf[byte] = this.#lowerBound(0, sorted.length, 0, byte);
  }

  find(text: Uint8Array): Set<number> {
    const found = new Set<number>();
    for (let at = 0; at < text.length; at++) {
      let low = this.#firstOf[text[at]];
      let high = this.#firstOf[text[at] + 1];
      for (let depth = 1; low < high; depth++) {
        // Sorted order puts the strings that end here before longer ones.
        while (low < high && this.#starts[low + 1] - this.#starts[low] === depth) found.add(this.#ids[low++]);
        if (at + depth >= text.length) break;
        low = this.#lowerBound(low, high, depth, text[at + depth]);
        high = this.#lowerBound(low, high, depth, text[at + depth] + 1);
      }
    }
    return found;
  }

  /**
   * The first index in [low, high) whose byte at `depth` is `byte` or more; all of these strings are longer than
   * `depth`.
   */
  #lowerBound(low: number, high: number, depth: number, byte: number): number {
    let [from, to] = [low, high];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#bytes[this.#starts[middle] + depth] < byte) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
