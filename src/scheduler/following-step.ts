// The step after a running one, composed before that one's tokens are known: async scheduling of plain decoding.

import type { ScheduledSequence } from "./scheduled-sequence.js";
import type { StepSlice } from "./step-slice.js";

interface FollowingOptions {
  /** Sequences whose last token the running step computes. */
  readonly ends: ReadonlySet<ScheduledSequence>;
  /** Number of all sequences that run. */
  readonly running: number;
  /** Number of the step that is composed. */
  readonly step: number;
  /** Allocates the block of a position; false if there is none. */
  makeWritable(sequence: ScheduledSequence, position: number): boolean;
}

const NO_DRAFT = new Int32Array();

/** One more token of each sequence; undefined if a running sequence needs something else, or if blocks are scarce. */
export function followingSlices(
  slices: readonly StepSlice[],
  { ends, running, step, makeWritable }: FollowingOptions,
): readonly StepSlice[] | undefined {
  const going = slices.filter(({ sequence }) => sequence.state === "running");
  if (going.length !== running || !going.every(isPlain)) return undefined;
  const next: StepSlice[] = [];
  for (const { sequence, start } of going) {
    if (ends.has(sequence)) continue;
    if (!makeWritable(sequence, start + 1)) return undefined;
    next.push({ sequence, start: start + 1, count: 1, outputs: 1, draft: NO_DRAFT });
  }
  for (const { sequence } of next) {
    sequence.servedStep = step;
    sequence.isQueuedEarly = true;
  }
  return next.length === 0 ? undefined : next;
}

/** Records that a step is the one that runs now, which may have been queued behind another. */
export function enterStep(slices: readonly StepSlice[]): void {
  for (const { sequence } of slices) {
    sequence.isInStep = sequence.state === "running";
    sequence.isQueuedEarly = false;
  }
}

/** Whether a slice is the next token of a text, without a draft. */
function isPlain({ sequence, count, draft }: StepSlice): boolean {
  return sequence.isDecoding && count === 1 && draft.length === 0;
}
