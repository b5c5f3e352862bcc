// Copies of blocks on their way to the device, gathered so that a step asks for them once. A batch is copied in no
// particular order, so a block that an earlier copy of the batch reads or writes ends the batch.

export class BlockCopies {
  readonly #copy: (pairs: Int32Array) => void;
  #pairs: number[] = [];

  /** `copy` takes from, to, from, to … */
  constructor(copy: (pairs: Int32Array) => void) {
    this.#copy = copy;
  }

  add(from: number, to: number): void {
    if (this.#pairs.includes(to) || this.#pairs.some((block, index) => index % 2 === 1 && block === from)) this.flush();
    this.#pairs.push(from, to);
  }

  /** To be called before the step that relies on them. */
  flush(): void {
    if (this.#pairs.length === 0) return;
    const pairs = Int32Array.from(this.#pairs);
    this.#pairs = [];
    this.#copy(pairs);
  }
}
