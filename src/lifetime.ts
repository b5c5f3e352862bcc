// Disposal shared by everything that owns a file, a mapping or device memory. Invariants: disposing twice is the same
// as disposing once; use after disposal throws DisposedError.

import { DisposedError } from "./errors.js";

/** Whether an owner has been disposed, and the owner's name for the error of a use after that. */
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

  /** Marks the owner as disposed; true for the first caller only, so that resources are released once. */
  end(): boolean {
    if (this.#disposed) return false;
    this.#disposed = true;
    return true;
  }
}
