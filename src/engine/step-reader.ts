// Whoever a sequence is computed for, and what the engine does for him. Right after a step a reader takes its rows and no
// more than it must; what can wait (text, log-probabilities, sums) it does while the next step runs.

import type { OutputRequest, OutputRow } from "../backends/contract.js";
import type { ScheduledSequence, SequenceOptions } from "../scheduler/scheduled-sequence.js";
import type { MaskBarrier } from "./mask-barrier.js";

/** What is wanted of a token, without saying in which row of which step it will be. */
export type RowWant = Omit<OutputRequest, "row">;

export interface StepReader {
  /** A part of its sequence goes into a step. */
  launched(atMs: number): void;
  wanted(): RowWant;
  take(row: OutputRow, atMs: number): void;
  deliver(): void;
  /** Ends all that belongs to it. Safe to call again. */
  fail(error: unknown): void;
}

export interface SequenceHost {
  readonly masks: MaskBarrier;
  /** Throws a ServingError where the queue is full or the sequence can never run. */
  submit(options: SequenceOptions, reader: StepReader): ScheduledSequence;
  fork(sequence: ScheduledSequence, reader: StepReader): ScheduledSequence;
  /** Its blocks are free at once; what a step under way computes for it is dropped. */
  release(sequence: ScheduledSequence): void;
  /** Calls `deliver` while the next step runs. */
  deliverLater(reader: StepReader): void;
  /** Something can be computed that could not before. */
  wake(): void;
}
