// The reader of a sequence's output rows, and the host that computes them. Right after a step a reader samples; what
// can wait (text, log-probabilities, sums) it does while the next step runs.

import type { OutputRequest, OutputRow } from "../backends/contract.js";
import type { ScheduledSequence, SequenceOptions } from "../scheduler/scheduled-sequence.js";
import type { MaskBarrier } from "./mask-barrier.js";

/** What is wanted of a token's output, without the row of the step that it will be in. */
export type RowWant = Omit<OutputRequest, "row">;

export interface StepReader {
  /** A step with a part of the sequence was launched. */
  launched(atMs: number): void;
  wanted(): RowWant;
  take(row: OutputRow, atMs: number): void;
  deliver(): void;
  /** Fails and frees everything that belongs to the reader. Safe to call again. */
  fail(error: unknown): void;
}

export interface SequenceHost {
  readonly masks: MaskBarrier;
  /** Throws a ServingError if the queue is full or the sequence can never run. */
  submit(options: SequenceOptions, reader: StepReader): ScheduledSequence;
  fork(sequence: ScheduledSequence, reader: StepReader): ScheduledSequence;
  /** Frees its blocks at once; rows that a running step computes for it are dropped. */
  release(sequence: ScheduledSequence): void;
  /** Calls `deliver` while the next step runs. */
  deliverLater(reader: StepReader): void;
  /** Wakes the loop: something can be computed that could not before. */
  wake(): void;
}
