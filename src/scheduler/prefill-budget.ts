// Divides the prefill budget of a step among prompts. A part of it is shared in turns: those that have waited longest
// since their last chunk come first, and a priority counts like some steps of waiting, so that every prompt gets its
// turn. The rest goes to the prompts that are done soonest: dividing it evenly would end all of them late, and a prompt
// that is done decodes beside the others at little cost.

import type { ScheduledSequence } from "./scheduled-sequence.js";

/** Steps of waiting that one unit of priority is worth between prompts. */
const PRIORITY_STEPS = 16;
/** Part of the budget that prompts share in turns. */
const SHARED_PART = 1 / 8;

interface PrefillChunk {
  readonly sequence: ScheduledSequence;
  tokens: number;
}

interface PrefillBudget {
  readonly tokens: number;
  /** Output rows beyond one per sequence. */
  readonly spareOutputs: number;
  readonly blockTokens: number;
}

/** Chunks of at least one token, and at most the tokens that can be computed of each prompt. */
export function splitPrefillBudget(
  prompts: ScheduledSequence[],
  { tokens, spareOutputs, blockTokens }: PrefillBudget,
): PrefillChunk[] {
  const entries = prompts.sort(compareByTurn).map((sequence) => ({ sequence, tokens: 0 }));
  let tokensLeft = tokens;
  let outputsLeft = spareOutputs;
  const grant = (entry: PrefillChunk, most: number): number => {
    const { sequence } = entry;
    const granted = Math.max(
      0,
      Math.min(most, tokensLeft, withinOutputs(entry, outputsLeft), computable(sequence) - entry.tokens),
    );
    outputsLeft -= spareOutputsOf(sequence, entry.tokens + granted) - spareOutputsOf(sequence, entry.tokens);
    entry.tokens += granted;
    tokensLeft -= granted;
    return granted;
  };
  let shared = sharedTokens(tokens, blockTokens);
  const share = Math.ceil(shared / Math.max(1, entries.length) / blockTokens) * blockTokens;
  for (const entry of entries) shared -= grant(entry, Math.min(share, shared));
  for (const entry of entries.toSorted(compareByEnd)) grant(entry, tokensLeft);
  return entries.filter((entry) => entry.tokens > 0);
}

/** Tokens of a step that prompts share in turns, in whole blocks; all of them if they are no more than a block. */
export function sharedTokens(tokens: number, blockTokens: number): number {
  return Math.min(tokens, Math.ceil((tokens * SHARED_PART) / blockTokens) * blockTokens);
}

/** Every sequence has one output row; a sequence that is scored takes further ones from the spare rows. */
function spareOutputsOf(sequence: ScheduledSequence, tokens: number): number {
  return Math.max(0, sequence.outputsOf(tokens) - 1);
}

/** Tokens that can be added to a chunk before its output rows exceed the spare ones. */
function withinOutputs({ sequence, tokens }: PrefillChunk, outputsLeft: number): number {
  const { firstOutput, computed } = sequence;
  if (firstOutput === undefined) return Number.POSITIVE_INFINITY;
  const rows = sequence.outputsOf(tokens);
  const withoutRows = Math.max(0, firstOutput - computed - tokens);
  return withoutRows + outputsLeft + (rows === 0 ? 1 : 0);
}

/** Tokens of a sequence that can be computed now: the last one waits until its output request is known. */
export function computable({ remaining, isReady, firstOutput }: ScheduledSequence): number {
  return isReady || firstOutput !== undefined ? remaining : remaining - 1;
}

function compareByTurn(left: ScheduledSequence, right: ScheduledSequence): number {
  return (
    turnOf(left) - turnOf(right) ||
    left.queuePosition.arrival - right.queuePosition.arrival ||
    left.queuePosition.fork - right.queuePosition.fork
  );
}

/** By priority, then those first that have the fewest tokens left. */
function compareByEnd({ sequence: left }: PrefillChunk, { sequence: right }: PrefillChunk): number {
  return (
    right.queuePosition.priority - left.queuePosition.priority ||
    left.remaining - right.remaining ||
    left.queuePosition.arrival - right.queuePosition.arrival ||
    left.queuePosition.fork - right.queuePosition.fork
  );
}

function turnOf({ servedStep, queuePosition }: ScheduledSequence): number {
  return servedStep - queuePosition.priority * PRIORITY_STEPS;
}
