// Which operations read which values: an operation may be fused with the next if nothing else reads what is between them.

import { inputsOf, type Operation, type ValueId } from "./operation.js";
import type { Program } from "./program.js";

/** The operations that read a value, itself or through a view of its columns. */
export class ValueUses {
  readonly #readers = new Map<ValueId, Set<Operation>>();
  readonly #kept: ReadonlySet<ValueId>;
  /** The value that holds the memory of this one: itself, or the base of a view. */
  readonly rootOf: (id: ValueId) => ValueId;

  constructor({ values, operations, hidden, logits }: Program) {
    this.rootOf = (id) => values[id].base ?? id;
    this.#kept = new Set([hidden, ...(logits === undefined ? [] : [logits])].map(this.rootOf));
    for (const operation of operations) {
      for (const root of inputsOf(operation).map(this.rootOf)) {
        const readers = this.#readers.get(root) ?? new Set();
        this.#readers.set(root, readers.add(operation));
      }
    }
  }

  isOnlyReadBy(id: ValueId, readers: readonly Operation[]): boolean {
    const root = this.rootOf(id);
    const found = this.#readers.get(root) ?? new Set();
    return root === id && !this.#kept.has(root) && [...found].every((reader) => readers.includes(reader));
  }
}
