// Disposal shared by everything that owns a file, a mapping or device memory.
// Invariants: disposing twice is the same as once; use after dispose throws DisposedError.

import { DisposedError } from "./errors.js";

/** Remembers whether its owner still lives, and names it in the error when it does not. */
export class Lifetime {
  #disposed = false;
  readonly #what: string;

  constructor(what: string) {
    this.#what = what;
  }

  get disposed(): boolean {
    return this.#disposed;
  }

  assertAlive(): void {
    if (this.#disposed) throw new DisposedError(this.#what);
  }

  /** True for the first caller only, so that an owner releases what it holds once. */
  end(): boolean {
    if (this.#disposed) return false;
    this.#disposed = true;
    return true;
  }
}
