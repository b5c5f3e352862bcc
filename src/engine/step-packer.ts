// Packs the slices of sequences into one step for the backend. The arrays are allocated once and filled in place: a
// step has ended before its packer packs the next.

import type { OutputRequest, StepInput } from "../backends/contract.js";
import type { ScheduledSequence } from "../scheduler/scheduled-sequence.js";
import type { StepSlice } from "../scheduler/step-slice.js";
import type { RowWant } from "./step-reader.js";

/** Packs the slices of a batch into a step's input arrays. */
export class StepPacker {
  readonly #tokens: Int32Array;
  readonly #positions: Int32Array;
  readonly #offsets: Int32Array;
  readonly #stateReads: Int32Array;
  readonly #stateWrites: Int32Array;

  constructor({ stepTokens, sequences }: { readonly stepTokens: number; readonly sequences: number }) {
    this.#stateReads = new Int32Array(sequences);
    this.#stateWrites = new Int32Array(stepTokens);
    this.#tokens = new Int32Array(stepTokens);
    this.#positions = new Int32Array(stepTokens);
    this.#offsets = new Int32Array(sequences + 1);
  }

  /** A step of one token each, which the step that is running chooses: `previousOutputs` tells by which of its outputs. */
  packAsync(
    slices: readonly StepSlice[],
    previousOutputs: Int32Array,
    wantOf: (sequence: ScheduledSequence) => RowWant,
  ): StepInput {
    const step = this.pack(slices, wantOf);
    // Its tokens are not known yet, and sequences may end and return their blocks before it begins.
    step.tokens.fill(0);
    return { ...step, blockTables: step.blockTables.map((table) => table.slice()), previousOutputs };
  }

  pack(slices: readonly StepSlice[], wantOf: (sequence: ScheduledSequence, index: number) => RowWant): StepInput {
    const outputs: OutputRequest[] = [];
    const hasStates = slices[0]?.sequence.tables.states !== undefined;
    let filled = 0;
    for (const [index, { sequence, start, count, outputs: rows, draft }] of slices.entries()) {
      this.#offsets[index] = filled;
      this.#tokens.set(sequence.tokens.subarray(start, start + count - draft.length), filled);
      this.#tokens.set(draft, filled + count - draft.length);
      for (let token = 0; token < count; token++) this.#positions[filled + token] = start + token;
      sequence.tables.states?.fillWrites(this.#stateWrites.subarray(filled, filled + count), start);
      this.#stateReads[index] = sequence.tables.states?.readSlot ?? -1;
      filled += count;
      for (let output = 0; output < rows; output++)
        outputs.push({ row: filled - rows + output, ...wantOf(sequence, output) });
    }
    this.#offsets[slices.length] = filled;
    return {
      tokens: this.#tokens.subarray(0, filled),
      positions: this.#positions.subarray(0, filled),
      sequenceOffsets: this.#offsets.subarray(0, slices.length + 1),
      blockTables: tablesOf(slices),
      outputs,
      ...(hasStates
        ? {
            stateReads: this.#stateReads.subarray(0, slices.length),
            stateWrites: this.#stateWrites.subarray(0, filled),
          }
        : {}),
    };
  }
}

/** The tables of all sequences, one cache group after the other. */
function tablesOf(slices: readonly StepSlice[]): Int32Array[] {
  const tables: Int32Array[] = [];
  const groups = slices[0]?.sequence.tables.groups.length ?? 0;
  for (let group = 0; group < groups; group++)
    for (const { sequence } of slices) tables.push(sequence.tables.groups[group].blocks);
  return tables;
}
