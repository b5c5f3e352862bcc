// Names and what they stand for. As in Jinja, what a loop or a macro sets is gone when it ends, and a macro sees the names
// of the place where it is written, not of the one where it is called.

import { Undefined, type Value } from "./values.js";

export class Scope {
  readonly #parent: Scope | undefined;
  readonly #names = new Map<string, Value>();

  constructor(parent?: Scope) {
    this.#parent = parent;
  }

  get(name: string): Value {
    const value = this.#names.get(name);
    if (value !== undefined) return value;
    // No deeper than the template's blocks are.
    return this.#parent === undefined ? new Undefined(name) : this.#parent.get(name);
  }

  /** Whether the name is set here, and not further out. */
  has(name: string): boolean {
    return this.#names.has(name);
  }

  set(name: string, value: Value): void {
    this.#names.set(name, value);
  }
}
