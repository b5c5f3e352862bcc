// Collects copies of KV blocks, so that a step requests them from the device in one batch. The copies of a batch run in
// no particular order, so a block that an earlier copy of the batch reads or writes starts a new batch.

/** Copies of KV blocks that are pending until the next step. */
export class BlockCopies {
  readonly #copy: (pairs: Int32Array) => void;
  #pairs: number[] = [];

  /** `copy` receives pairs of block numbers: from, to, from, to … */
  constructor(copy: (pairs: Int32Array) => void) {
    this.#copy = copy;
  }

  add(from: number, to: number): void {
    if (this.#pairs.includes(to) || this.#pairs.some((block, index) => index % 2 === 1 && block === from)) this.flush();
    this.#pairs.push(from, to);
  }

  /** Requests the pending copies; call it before the step that relies on them. */
  flush(): void {
    if (this.#pairs.length === 0) return;
    const pairs = Int32Array.from(this.#pairs);
    this.#pairs = [];
    this.#copy(pairs);
  }
}
