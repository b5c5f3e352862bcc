// Divides the prefill budget of a step among prompts. Prompts that have waited longest since their last chunk come
// first, and a priority counts like some steps of waiting, so that every prompt gets its turn. Each gets an equal chunk
// of whole blocks; the remainder is distributed in the same order.

import type { ScheduledSequence } from "./scheduled-sequence.js";

/** Steps of waiting that one unit of priority is worth between prompts. */
const PRIORITY_STEPS = 16;

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
  prompts.sort(compareByTurn);
  const share = Math.ceil(tokens / Math.max(1, prompts.length) / blockTokens) * blockTokens;
  const shares: PrefillChunk[] = [];
  let tokensLeft = tokens;
  let outputsLeft = spareOutputs;
  const grant = (entry: PrefillChunk, most: number): void => {
    const { sequence } = entry;
    const granted = Math.max(
      0,
      Math.min(most, tokensLeft, withinOutputs(entry, outputsLeft), computable(sequence) - entry.tokens),
    );
    outputsLeft -= spareOutputsOf(sequence, entry.tokens + granted) - spareOutputsOf(sequence, entry.tokens);
    entry.tokens += granted;
    tokensLeft -= granted;
  };
  for (const sequence of prompts) {
    const entry = { sequence, tokens: 0 };
    grant(entry, share);
    if (entry.tokens > 0) shares.push(entry);
  }
  for (const entry of shares) grant(entry, tokensLeft);
  return shares;
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

function turnOf({ servedStep, queuePosition }: ScheduledSequence): number {
  return servedStep - queuePosition.priority * PRIORITY_STEPS;
}
