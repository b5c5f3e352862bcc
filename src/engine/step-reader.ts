// The reader of a sequence's output rows, and the host that computes them. A reader samples right after a step; what
// can wait (text, log-probabilities, sums) it does while the next step runs.

import type { OutputRequest, OutputRow } from "../backends/contract.js";
import type { ScheduledSequence, SequenceOptions } from "../scheduler/scheduled-sequence.js";
import type { MaskBarrier } from "./mask-barrier.js";

/** What a token's output row should contain; its position in the step is decided later. */
export type RowWant = Omit<OutputRequest, "row">;

/** Receives the output rows of one sequence. */
export interface StepReader {
  /** A step with a part of the sequence was launched. */
  launched(atMs: number): void;
  wanted(): RowWant;
  take(row: OutputRow, atMs: number): void;
  deliver(): void;
  /** Fails and frees everything that belongs to the reader. Safe to call again. */
  fail(error: unknown): void;
}

/** What a reader may ask of the engine loop. */
export interface SequenceHost {
  readonly masks: MaskBarrier;
  /** Throws a ServingError if the queue is full or the sequence can never run. */
  submit(options: SequenceOptions, reader: StepReader): ScheduledSequence;
  fork(sequence: ScheduledSequence, reader: StepReader): ScheduledSequence;
  /** Frees the sequence's blocks at once; rows that a running step computes for it are dropped. */
  release(sequence: ScheduledSequence): void;
  /** Calls `deliver` while the next step runs. */
  deliverLater(reader: StepReader): void;
  /** Wakes the loop, because something has become computable. */
  wake(): void;
}
