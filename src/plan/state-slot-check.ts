// Checks the state slots of a step: every sequence reads one slot or begins with zeros, no slot is written twice, and a
// slot that is written is read by no other sequence.

import type { StepInput } from "../backends/contract.js";
import { BackendError } from "../errors.js";

/** Validates the state slots of the steps of one plan; throws BACKEND_STEP. */
export class StateSlotCheck {
  /** For each slot, the last step that writes it. */
  #writtenIn = new Int32Array();
  /** For each slot, the sequence that writes it in that step. */
  #writers = new Int32Array();
  #stepNumber = 0;

  check({ tokens, positions, sequenceOffsets, stateReads, stateWrites }: StepInput, slots: number): void {
    const sequences = sequenceOffsets.length - 1;
    const reads = slotsOf("stateReads", stateReads, sequences);
    const writes = slotsOf("stateWrites", stateWrites, tokens.length);
    this.#begin(slots);
    for (let sequence = 0; sequence < sequences; sequence++) {
      const begins = positions[sequenceOffsets[sequence]] === 0;
      const least = begins ? -1 : 0;
      if (reads[sequence] < least || reads[sequence] >= slots)
        refuseStep("stateReads", `a slot below ${slots}${begins ? ", or -1" : ""}`, String(reads[sequence]));
      for (let row = sequenceOffsets[sequence]; row < sequenceOffsets[sequence + 1]; row++)
        this.#write(writes[row], sequence, slots);
    }
    for (let sequence = 0; sequence < sequences; sequence++) {
      const slot = reads[sequence];
      if (slot >= 0 && this.#isWritten(slot) && this.#writers[slot] !== sequence)
        refuseStep("stateReads", "a slot that no other sequence of the step writes", String(slot));
    }
  }

  #begin(slots: number): void {
    this.#stepNumber++;
    if (this.#writtenIn.length >= slots) return;
    this.#writtenIn = new Int32Array(slots);
    this.#writers = new Int32Array(slots);
  }

  #write(slot: number, sequence: number, slots: number): void {
    if (slot === -1) return;
    if (slot < 0 || slot >= slots) refuseStep("stateWrites", `slots below ${slots}, or -1`, String(slot));
    if (this.#isWritten(slot)) refuseStep("stateWrites", "each slot at most once", `${slot} again`);
    this.#writtenIn[slot] = this.#stepNumber;
    this.#writers[slot] = sequence;
  }

  #isWritten(slot: number): boolean {
    return this.#writtenIn[slot] === this.#stepNumber;
  }
}

/** The state slots of a step whose sequences own a slot each: they read it and write it after their last token. */
export function ownStateSlots(
  slots: ArrayLike<number>,
  { positions, sequenceOffsets }: Pick<StepInput, "positions" | "sequenceOffsets">,
): Pick<StepInput, "stateReads" | "stateWrites"> {
  const stateReads = Int32Array.from(slots);
  const stateWrites = new Int32Array(positions.length).fill(-1);
  for (const [sequence, slot] of stateReads.entries()) {
    stateWrites[sequenceOffsets[sequence + 1] - 1] = slot;
    if (positions[sequenceOffsets[sequence]] === 0) stateReads[sequence] = -1;
  }
  return { stateReads, stateWrites };
}

function slotsOf(field: string, slots: Int32Array | undefined, count: number): Int32Array {
  if (!(slots instanceof Int32Array)) return refuseStep(field, "an Int32Array", typeof slots);
  return slots.length === count ? slots : refuseStep(field, `${count} slots`, String(slots.length));
}

/** Refuses a field of a step. */
export function refuseStep(field: string, expected: string, found: string): never {
  throw new BackendError("BACKEND_STEP", `[step] ${field}: expected ${expected}, found ${found}`, {
    details: { field, expected, found },
  });
}
