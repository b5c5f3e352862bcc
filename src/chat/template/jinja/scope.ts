// Names and their values. As in Jinja, names set in a loop or macro end with it, and a macro sees the names of its
// definition, not of its call.

import { Undefined, type TemplateValue } from "./values.js";

/** Variables of a template, loop or macro; a name that is not found here is looked up in the enclosing scope. */
export class Scope {
  readonly #parent: Scope | undefined;
  readonly #names = new Map<string, TemplateValue>();

  constructor(parent?: Scope) {
    this.#parent = parent;
  }

  get(name: string): TemplateValue {
    const value = this.#names.get(name);
    if (value !== undefined) return value;
    // Recursion is no deeper than the template's blocks.
    return this.#parent === undefined ? new Undefined(name) : this.#parent.get(name);
  }

  /** Whether the name is set in this scope itself. */
  has(name: string): boolean {
    return this.#names.has(name);
  }

  set(name: string, value: TemplateValue): void {
    this.#names.set(name, value);
  }
}
