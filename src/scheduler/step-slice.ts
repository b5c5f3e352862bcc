// The part of a sequence that one step computes.

import type { ScheduledSequence } from "./scheduled-sequence.js";

/** Tokens of one sequence in one step: positions `start` to `start + count` − 1. */
export interface StepSlice {
  readonly sequence: ScheduledSequence;
  readonly start: number;
  readonly count: number;
  /** Number of output rows: none, one for the last token, or one for each token from `firstOutput` on or of a draft. */
  readonly outputs: number;
  /** The last of the `count` tokens, which are proposed and not part of the sequence yet. */
  readonly draft: Int32Array;
}
