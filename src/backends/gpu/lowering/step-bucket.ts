// Steps that one captured graph serves: all that differ in nothing that a launch depends on once counts are rounded up.
// Kernels read the true counts from the step buffer, so a graph for more rows computes fewer as well.

import { splitsOf } from "../memory/kv-layout.js";
import type { LaunchSize } from "./launch.js";
import { isTiled } from "./prefill-attention.js";
import type { StepCounts } from "./step-layout.js";

/** Up to eight tokens every count has a graph of its own: single sequences and the first few of a batch. */
export const GRAPH_COUNTS = [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256];

export interface BucketLimits {
  readonly maxOutputs: number;
  /** Tokens that attention computes in one turn. */
  readonly maxTokens: number;
}

export function exactSize(counts: StepCounts): LaunchSize {
  const { tokens, sequences, outputs, scored, tiles, longest, longestRun } = counts;
  return { tokens, sequences, outputs, scored, tiles, longest, longestRun, splits: splitsOf(longest) };
}

/** Undefined for steps that do not come again in the same size: prompts, and very large batches. */
export function bucketSize(size: LaunchSize, { maxOutputs, maxTokens }: BucketLimits): LaunchSize | undefined {
  const tokens = roundedCount(size.tokens, maxTokens);
  const outputs = roundedCount(size.outputs, maxOutputs);
  const scored = roundedCount(size.scored, maxOutputs);
  if (tokens === undefined || outputs === undefined || scored === undefined || isTiled(size)) return undefined;
  const splits = 2 ** Math.ceil(Math.log2(Math.max(1, size.splits)));
  return {
    tokens,
    outputs,
    scored,
    splits,
    sequences: 0,
    tiles: 0,
    longest: 0,
    longestRun: size.longestRun === 1 ? 1 : 0,
  };
}

/** Whether two steps fall into one bucket for certain: all that `bucketSize` looks at is the same. */
export function isSameSize(left: LaunchSize, right: LaunchSize): boolean {
  return (
    left.tokens === right.tokens &&
    left.outputs === right.outputs &&
    left.scored === right.scored &&
    left.splits === right.splits &&
    left.longestRun === right.longestRun
  );
}

export function bucketKey({ tokens, outputs, scored, splits, longestRun }: LaunchSize): string {
  return `${tokens} ${outputs} ${scored} ${splits} ${longestRun}`;
}

function roundedCount(count: number, limit: number): number | undefined {
  if (count === 0) return 0;
  const quantized = GRAPH_COUNTS.find((candidate) => candidate >= count);
  if (quantized === undefined) return undefined;
  return quantized <= limit ? quantized : count <= limit ? limit : undefined;
}
