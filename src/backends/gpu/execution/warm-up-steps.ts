// The steps of a warm-up: together they cover every class of sizes with its own launches, kernels, BLAS algorithms or
// graphs (matmul-selection.ts, step-bucket.ts, lowering/context.ts). Ordered by how soon a server's clients need them:
// a prompt, a few sequences, many, long prompts, long sequences.

import type { WarmUpStep } from "../../warm-up-step.js";
import { SPLIT_POSITIONS, splitsOf } from "../memory/kv-layout.js";
import { choiceTokens } from "../blas/algorithm-choices.js";
import { MAX_SMALL_BATCH, MIN_BLAS_BATCH } from "../lowering/matmul-selection.js";
import { GRAPH_COUNTS } from "../lowering/step-bucket.js";

interface WarmUpStepOptions {
  readonly maxTokens: number;
  readonly maxOutputs: number;
  readonly contextTokens: number;
  /** Maximum number of sequences that decode together. */
  readonly sequences: number;
  /** From how many tokens on the BLAS library computes matmuls; undefined if it never does. */
  readonly leastBlas: number | undefined;
}

/** Lengths of single prompts: one for each kernel variant of each class. */
const PROMPTS = [16, 32, 64, 128, 256, 2, 4, 8, MIN_BLAS_BATCH];

/** Decoding sequences together with a prompt: total and outputs cover every possible pair of classes. */
const MIXED = [
  { decoding: 1, prompt: 16 },
  { decoding: 12, prompt: 16 },
  { decoding: 16, prompt: 32 },
  { decoding: 40, prompt: 16 },
  { decoding: 20, prompt: 100 },
  { decoding: 40, prompt: 100 },
  { decoding: 3, prompt: 4 },
  { decoding: 12, prompt: 4 },
  { decoding: 40, prompt: 4 },
  { decoding: 62, prompt: 4 },
  { decoding: 20, prompt: MIN_BLAS_BATCH },
  { decoding: 40, prompt: MIN_BLAS_BATCH },
];

const RUN = { runs: true, deferred: false };

/** The steps of a warm-up in the order in which they should run. */
export function warmUpSteps(options: WarmUpStepOptions): readonly WarmUpStep[] {
  const counts = decodingCounts(options);
  const { leastBlas = MIN_BLAS_BATCH } = options;
  const prompts = [...PROMPTS, leastBlas].map((prompt) => ({ decoding: 0, prompt, longest: prompt, ...RUN }));
  // The prompt is a sequence, too.
  const large = [20, 40].map((decoding) => ({ decoding, prompt: leastBlas }));
  const withPrompt = ({ decoding, prompt }: (typeof MIXED)[number]) => ({
    decoding: Math.min(decoding, options.sequences - 1),
    prompt,
    longest: 1,
    ...RUN,
  });
  const mixed = [...MIXED, ...large].map(withPrompt);
  // Prompts too short for tiles take split attention, which leaves parts if a sequence beside them is long.
  const mixedLong = MIXED.filter(({ prompt }) => prompt <= MAX_SMALL_BATCH).map((step) => ({
    ...withPrompt(step),
    longest: Math.min(options.contextTokens, 2 * SPLIT_POSITIONS),
    deferred: true,
  }));
  const steps = [
    ...prompts.slice(0, 2),
    ...decodingAt(1, counts, false),
    ...prompts.slice(2),
    ...mixed,
    ...blasShapes(options),
    ...mixedLong,
    ...deeper(options, counts),
  ];
  const distinct = new Map(
    steps.filter((step) => isPossible(step, options)).map((step) => [JSON.stringify(step), step]),
  );
  return [...distinct.values()];
}

/** Every count that graphs are rounded up to, and the largest batch. */
function decodingCounts({ sequences, maxOutputs, maxTokens }: WarmUpStepOptions): readonly number[] {
  const most = Math.min(sequences, maxOutputs, maxTokens);
  return [...GRAPH_COUNTS.filter((count) => count < most), most];
}

function decodingAt(longest: number, counts: readonly number[], deferred: boolean): readonly WarmUpStep[] {
  return counts.map((decoding) => ({ decoding, prompt: 0, longest, runs: true, deferred }));
}

/**
 * At depths of two splits, four and so on, up to the context length: attention uses other kernels there, and each depth
 * has its own graphs. Compiling the kernels takes long; a graph is captured in about 5 ms.
 */
function deeper({ contextTokens }: WarmUpStepOptions, counts: readonly number[]): readonly WarmUpStep[] {
  const steps: WarmUpStep[] = [];
  for (let splits = 2; splits < 2 * splitsOf(contextTokens); splits *= 2) {
    steps.push(...decodingAt(Math.min(contextTokens, splits * SPLIT_POSITIONS), counts, true));
  }
  return steps;
}

/** Token counts with their own BLAS algorithms; nothing else about a long prompt depends on its length. */
function blasShapes({ leastBlas, maxTokens }: WarmUpStepOptions): readonly WarmUpStep[] {
  const steps: WarmUpStep[] = [];
  if (leastBlas === undefined) return steps;
  for (let tokens = leastBlas; tokens <= maxTokens; tokens = choiceTokens(tokens + 1, maxTokens)) {
    steps.push({ decoding: 0, prompt: tokens, longest: tokens, runs: false, deferred: false });
    if (tokens === maxTokens) break;
  }
  return steps;
}

function isPossible(
  { decoding, prompt, longest }: WarmUpStep,
  { sequences, maxTokens, maxOutputs, contextTokens }: WarmUpStepOptions,
): boolean {
  const outputs = decoding + (prompt > 0 ? 1 : 0);
  return (
    outputs > 0 &&
    outputs <= Math.min(sequences, maxOutputs) &&
    decoding + prompt <= maxTokens &&
    Math.max(longest, prompt) <= contextTokens
  );
}
