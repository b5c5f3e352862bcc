// Verification of drafts: which tokens of a step's slices are part of their texts. Decided here, once for each slice and
// before the scheduler commits anything: blocks, and whatever else belongs to the tokens of a sequence, follow from it.

import type { OutputRow } from "../backends/contract.js";
import type { ScheduledSequence } from "../scheduler/scheduled-sequence.js";
import type { StepSlice } from "../scheduler/step-slice.js";
import type { StepReader } from "./step-reader.js";

interface Verifiers {
  readonly readers: ReadonlyMap<ScheduledSequence, StepReader>;
  readonly atMs: number;
  /** Runs work of a reader, and fails that reader alone if it throws. */
  readonly attempt: (reader: StepReader, work: () => void) => void;
}

/**
 * Lets readers verify the drafts of a step. For each slice with a draft, how many of its tokens are accepted; all tokens
 * of the other slices are. A slice whose first row is not finite is not verified: `take` reports it.
 */
export function verifyDrafts(
  slices: readonly StepSlice[],
  rows: readonly OutputRow[],
  { readers, atMs, attempt }: Verifiers,
): ReadonlyMap<StepSlice, number> {
  const accepted = new Map<StepSlice, number>();
  let next = 0;
  for (const slice of slices) {
    const [start, end] = [next, (next += slice.outputs)];
    const reader = readers.get(slice.sequence);
    if (slice.draft.length === 0 || reader === undefined || slice.sequence.state !== "running") continue;
    const finite = finiteUntil(rows, start, end);
    if (finite === start) continue;
    attempt(reader, () => {
      // A row after these that is not finite may belong to a rejected token; if not, its token is computed again.
      const count = reader.verify?.(rows.slice(start, finite), slice.draft, atMs);
      if (count !== undefined) accepted.set(slice, count);
    });
  }
  return accepted;
}

/** The first row in a range that is not finite, or else the range's end. */
function finiteUntil(rows: readonly OutputRow[], start: number, end: number): number {
  for (let row = start; row < end; row++) if (rows[row]?.kind === "not-finite") return row;
  return end;
}

/** Draft tokens in a step. */
export function draftTokensOf(slices: readonly StepSlice[]): number {
  return slices.reduce((total, { draft }) => total + draft.length, 0);
}

/** Counted when statistics are read, so that a step pays for nothing. */
export function batchCounts(slices: readonly StepSlice[]) {
  let [stepSequences, stepPrefillTokens, stepDecodeTokens] = [0, 0, 0];
  for (const { sequence, count, draft } of slices) {
    // A sequence that ended after its step was queued does not count: its row is dropped.
    if (sequence.state !== "running") continue;
    stepSequences++;
    if (sequence.isDecoding) stepDecodeTokens += count - draft.length;
    else stepPrefillTokens += count;
  }
  return { stepSequences, stepPrefillTokens, stepDecodeTokens, stepDraftTokens: draftTokensOf(slices) };
}

/** Sequences with a row that is not finite: their blocks are invalid. Rows after a rejected token do not count. */
export function spoiledBy(
  slices: readonly StepSlice[],
  rows: readonly OutputRow[],
  accepted: ReadonlyMap<StepSlice, number>,
): ReadonlySet<ScheduledSequence> {
  const spoiled = new Set<ScheduledSequence>();
  if (!rows.some(({ kind }) => kind === "not-finite")) return spoiled;
  let next = 0;
  for (const slice of slices) {
    const end = next + slice.outputs;
    const counted = slice.draft.length > 0 ? (accepted.get(slice) ?? 1) : slice.outputs;
    if (finiteUntil(rows, next, next + counted) < next + counted) spoiled.add(slice.sequence);
    next = end;
  }
  return spoiled;
}
