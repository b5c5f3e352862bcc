// A growing list of token ids. Invariant: `take` returns exactly what was pushed, in order.

const FIRST_CAPACITY = 256;

/** A growing list of token ids. */
export class TokenBuffer {
  #ids = new Int32Array(FIRST_CAPACITY);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(id: number): void {
    if (this.#length === this.#ids.length) this.#grow(this.#length + 1);
    this.#ids[this.#length++] = id;
  }

  append(ids: Int32Array): void {
    const end = this.#length + ids.length;
    if (end > this.#ids.length) this.#grow(end);
    this.#ids.set(ids, this.#length);
    this.#length = end;
  }

  /** A copy of the ids pushed since `from`. */
  since(from: number): Int32Array {
    return this.#ids.slice(from, this.#length);
  }

  #grow(needed: number): void {
    const larger = new Int32Array(Math.max(needed, this.#ids.length * 2));
    larger.set(this.#ids);
    this.#ids = larger;
  }
}
