// The step after a running one, before that one's tokens are known: which sequences it has, what their rows are to contain,
// and which of the running step's outputs chooses each token.

import type { ScheduledSequence } from "../scheduler/scheduled-sequence.js";
import type { Scheduler } from "../scheduler/scheduler.js";
import type { StepSlice } from "../scheduler/step-slice.js";
import type { RowWant, StepReader } from "./step-reader.js";

/** A step whose tokens the running step chooses. */
export interface FollowingStep {
  readonly slices: readonly StepSlice[];
  /** For each slice, the output of the running step that gives its token. */
  readonly previousOutputs: Int32Array;
  wantOf(sequence: ScheduledSequence): RowWant;
}

/** Composes the step after a running one; undefined if that has to wait for the running one's tokens. */
export function followingStep(
  running: readonly StepSlice[],
  scheduler: Scheduler,
  readers: ReadonlyMap<ScheduledSequence, StepReader>,
): FollowingStep | undefined {
  const wants = new Map<ScheduledSequence, RowWant>();
  const ends = new Set<ScheduledSequence>();
  const outputs = new Map<ScheduledSequence, number>();
  let output = 0;
  for (const { sequence, outputs: count } of running) {
    outputs.set(sequence, output);
    output += count;
    if (sequence.state !== "running") continue;
    // A draft that was found while this step was queued already: the step after it may verify the next one.
    if (sequence.draft.length > 0) return undefined;
    const want = readers.get(sequence)?.wantedAfterNext?.();
    if (want === undefined) return undefined;
    if (want === "ends") ends.add(sequence);
    else wants.set(sequence, want);
  }
  const slices = scheduler.following(running, ends);
  if (slices === undefined) return undefined;
  const known = <Value>(values: ReadonlyMap<ScheduledSequence, Value>, sequence: ScheduledSequence): Value => {
    const value = values.get(sequence);
    if (value === undefined) throw new RangeError("a sequence is not in the running step");
    return value;
  };
  return {
    slices,
    previousOutputs: Int32Array.from(slices, ({ sequence }) => known(outputs, sequence)),
    wantOf: (sequence) => known(wants, sequence),
  };
}
