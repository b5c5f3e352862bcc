// What the matching of groups asks of a program: which operations read a value, what an addition adds to one, and which
// norms a group may take along.

import {
  inputsOf,
  type AddOperation,
  type Operation,
  type RmsNormOperation,
  type ValueId,
  type WeightId,
} from "./operation.js";
import type { Program } from "./program.js";

/** A norm that groups may take along: it has a weight. */
export type WeightedRmsNorm = RmsNormOperation & { readonly weight: WeightId };

/** The norm of whole rows with a weight, if the operation is one. */
export function fusableNorm(operation: Operation | undefined, { values }: Program): WeightedRmsNorm | undefined {
  if (operation?.kind !== "rms-norm" || operation.groupWidth !== values[operation.input].width) return undefined;
  const { weight } = operation;
  return weight === undefined ? undefined : { ...operation, weight };
}

/** The other operand of an addition of two values of which one is known. */
export function otherOperand({ left, right }: AddOperation, known: ValueId): ValueId | undefined {
  if (left === right) return undefined;
  if (left === known) return right;
  return right === known ? left : undefined;
}

/** What an addition adds to a value, if that is all that becomes of the value. */
export function residualOf(sum: AddOperation, value: ValueId, uses: ValueUses): ValueId | undefined {
  const residual = otherOperand(sum, value);
  if (residual === undefined || uses.rootOf(residual) === value || !uses.isOnlyReadBy(value, [sum])) return undefined;
  return residual;
}

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

  /** Whether a value has memory of its own, is no result of the program and has no readers but these operations. */
  isOnlyReadBy(id: ValueId, readers: readonly Operation[]): boolean {
    const root = this.rootOf(id);
    const found = this.#readers.get(root) ?? new Set();
    return root === id && !this.#kept.has(root) && [...found].every((reader) => readers.includes(reader));
  }
}
