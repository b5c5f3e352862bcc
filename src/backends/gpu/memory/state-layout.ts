// Recurrent states on the device, behind the keys and values of a cache: state slots one after the other, so that a slot
// is one piece of memory, and in a slot the states of a program, each at an aligned address. The kernels of
// kernels/recurrent decide how the numbers of a state lie.

import type { KvCacheOptions } from "../../contract.js";
import { roundUp } from "./device-memory.js";

const STATE_ALIGNMENT_BYTES = 256;
const FLOAT_BYTES = 4;

/** Sizes and offsets in a state slot. */
export interface StateSlotLayout {
  /** Where each state begins in a slot, by `StateId`. */
  readonly byteOffsets: readonly number[];
  /** From one slot to the next. */
  readonly slotBytes: number;
}

/** How a state slot of these states lies on the device. */
export function stateSlotLayout(states: readonly number[] = []): StateSlotLayout {
  const byteOffsets: number[] = [];
  let end = 0;
  for (const elements of states) {
    byteOffsets.push(end);
    end += roundUp(elements * FLOAT_BYTES, STATE_ALIGNMENT_BYTES);
  }
  return { byteOffsets, slotBytes: end };
}

/** Bytes of all state slots of a cache on the device. */
export function stateSlotsBytes({ states, stateSlots = 0 }: KvCacheOptions): number {
  return stateSlots * stateSlotLayout(states).slotBytes;
}
