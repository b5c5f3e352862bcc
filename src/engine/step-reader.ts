// The reader of a sequence's output rows, and the host that computes them. A reader samples right after a step; what
// can wait (text, log-probabilities, sums) it does while the next step runs.

import type { OutputRequest, OutputRow } from "../backends/contract.js";
import type { ScheduledSequence, SequenceOptions } from "../scheduler/scheduled-sequence.js";
import type { Speculation } from "../speculation/speculation.js";
import type { MaskBarrier } from "./mask-barrier.js";

/** What a token's output row should contain; its position in the step is decided later. */
export type RowWant = Omit<OutputRequest, "row">;

/** Receives the output rows of one sequence. */
export interface StepReader {
  /** A step with a part of the sequence was launched. */
  launched(atMs: number): void;
  /** What the row after this many tokens of the draft should contain; 0 for every row of a slice without a draft. */
  wanted(draftTokens: number): RowWant;
  /**
   * What the row after the next one should contain, whatever token that gives: "ends" if the next token is the last one;
   * undefined if it depends on that token, as it does without this method.
   */
  wantedAfterNext?(): RowWant | "ends" | undefined;
  take(row: OutputRow, atMs: number): void;
  /**
   * Verifies a draft: extends the sequence by the tokens that the rows give, up to the first that differs from the draft.
   * Returns how many of the slice's tokens are part of the text: 1 for the last token of the text, and the accepted ones
   * of the draft. Only called for readers that set a draft.
   */
  verify?(rows: readonly OutputRow[], draft: Int32Array, atMs: number): number;
  /** Called after `verify`, when the accepted tokens are in the cache: goes on, or ends. */
  verified?(): void;
  deliver(): void;
  /** Fails and frees everything that belongs to the reader. Safe to call again. */
  fail(error: unknown): void;
}

/** What a reader may ask of the engine loop. */
export interface SequenceHost {
  readonly masks: MaskBarrier;
  /** Undefined if nothing is drafted. */
  readonly speculation: Speculation | undefined;
  /** Throws a ServingError if the queue is full or the sequence can never run. */
  submit(options: SequenceOptions, reader: StepReader): ScheduledSequence;
  fork(sequence: ScheduledSequence, reader: StepReader): ScheduledSequence;
  /**
   * Frees the sequence's blocks at once; rows that a running step computes for it are dropped. Its recurrent states are
   * kept for a sequence that continues it if `keepsStates`; those of a running step are waited for.
   */
  release(sequence: ScheduledSequence, keepsStates?: boolean): void;
  /** Calls `deliver` while the next step runs. */
  deliverLater(reader: StepReader): void;
  /** Wakes the loop, because something has become computable. */
  wake(): void;
}
