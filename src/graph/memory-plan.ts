// Which values share scratch memory: a value's slot is free again after the last operation that reads it.
// Sizes are symbolic (rows are known per step only), so a slot has a width and a kind of row, never an address.

import { inputsOf, type Operation, outputOf, type ValueId } from "./operation.js";
import type { RowSymbol, Value } from "./program.js";

const FLOAT_BYTES = 4;

export interface Slot {
  readonly rows: RowSymbol;
  readonly width: number;
}

export interface MemoryPlan {
  readonly slots: readonly Slot[];
  /** Slot of each value, by value id; a view has its base's slot. */
  readonly slotOf: readonly number[];
}

export type StepSize = Readonly<Record<RowSymbol, number>>;

export function scratchBytes(plan: MemoryPlan, size: StepSize): number {
  let total = 0;
  for (const slot of plan.slots) total += slot.width * size[slot.rows] * FLOAT_BYTES;
  return total;
}

/** The values that one operation, or several fused ones, read and write. */
export interface MemoryAccess {
  readonly inputs: readonly ValueId[];
  readonly outputs: readonly ValueId[];
}

export function accessOf(operation: Operation): MemoryAccess {
  const out = outputOf(operation);
  return { inputs: inputsOf(operation), outputs: out === undefined ? [] : [out] };
}

/**
 * `kept` values are read after the last operation (the step's results) and never share. A value that no access
 * names has no slot: -1.
 */
export function planMemory(
  values: readonly Value[],
  accesses: readonly MemoryAccess[],
  kept: readonly ValueId[],
): MemoryPlan {
  const rootOf = (id: ValueId): ValueId => values[id]?.base ?? id;
  const lastRead = lastReads(accesses, rootOf);
  for (const id of kept) lastRead.set(rootOf(id), Number.POSITIVE_INFINITY);

  const slots: { rows: RowSymbol; width: number }[] = [];
  const free: number[] = [];
  const slotOf: number[] = Array.from({ length: values.length }, () => -1);

  for (const [index, { inputs, outputs }] of accesses.entries()) {
    for (const root of outputs.map(rootOf)) {
      if (slotOf[root] === -1) slotOf[root] = takeSlot(slots, free, values[root]);
    }
    // A value without readers frees its slot at once; inputs free theirs only after the operation has written.
    const ended = new Set([...inputs, ...outputs].map(rootOf));
    for (const root of ended) {
      if ((lastRead.get(root) ?? -1) <= index) free.push(slotOf[root]);
    }
  }
  return { slots, slotOf: values.map((value) => slotOf[rootOf(value.id)]) };
}

function lastReads(accesses: readonly MemoryAccess[], rootOf: (id: ValueId) => ValueId): Map<ValueId, number> {
  const lastRead = new Map<ValueId, number>();
  for (const [index, { inputs }] of accesses.entries()) {
    for (const input of inputs) lastRead.set(rootOf(input), index);
  }
  return lastRead;
}

/** The free slot that wastes least: the narrowest that is wide enough, else the widest, which then grows. */
function takeSlot(slots: { rows: RowSymbol; width: number }[], free: number[], value: Value): number {
  let best = -1;
  for (const [position, slotIndex] of free.entries()) {
    const slot = slots[slotIndex];
    if (slot.rows !== value.rows) continue;
    const incumbent = best === -1 ? undefined : slots[free[best]];
    if (incumbent === undefined || isBetterFit(slot.width, incumbent.width, value.width)) best = position;
  }
  if (best === -1) return slots.push({ rows: value.rows, width: value.width }) - 1;
  const slotIndex = free.splice(best, 1)[0];
  const slot = slots[slotIndex];
  slot.width = Math.max(slot.width, value.width);
  return slotIndex;
}

function isBetterFit(candidate: number, incumbent: number, wanted: number): boolean {
  if (candidate >= wanted) return incumbent < wanted || candidate < incumbent;
  return incumbent < wanted && candidate > incumbent;
}
