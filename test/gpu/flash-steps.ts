// The steps with which prefill attention by wide products is compared with `reference`: a prompt, its continuation, and two
// sequences in one step.

import { expect } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import type { GpuBackend } from "../../src/backends/gpu/backend.js";
import { hiddenOf, normalisedError, plainStep, type ProgramCase, runSteps } from "../conformance/harness.js";
import { referenceSteps } from "../conformance/reference-results.js";

const OUTPUTS = 24;
const PROMPT = 130;

interface FlashSteps {
  /** Tokens that the cache has room for. */
  readonly rows: number;
  readonly blockTokens: number;
  /** Tokens of the second step. */
  readonly continuation: number;
}

export function flashSteps({ rows, blockTokens, continuation }: FlashSteps): readonly StepInput[] {
  return [
    lastOf(plainStep(PROMPT, { blockTokens })),
    lastOf(plainStep(continuation, { first: PROMPT, blockTokens })),
    together(PROMPT + continuation, rows, blockTokens),
  ];
}

/** Compares the backend's results, `width` columns a row, with those of `reference`. */
export async function expectReferenceResults(
  backend: GpuBackend,
  wanted: ProgramCase,
  steps: readonly StepInput[],
  { width, tolerance }: { readonly width: number; readonly tolerance: number },
): Promise<void> {
  const [expected, found] = [await referenceSteps(wanted, steps), await runSteps(backend, wanted, steps)];
  for (const [index, rows] of found.entries())
    expect(normalisedError(hiddenOf(rows, width), hiddenOf(expected[index], width))).toBeLessThan(tolerance);
}

/** The last rows of a step alone. */
function lastOf(step: StepInput): StepInput {
  return { ...step, outputs: step.outputs.slice(-OUTPUTS) };
}

/** Two sequences of a step: one goes on from `first`, the other begins. */
function together(first: number, rows: number, blockTokens: number): StepInput {
  const [left, right] = [plainStep(20, { first, blockTokens }), plainStep(70, { blockTokens })];
  const own = Int32Array.from(right.blockTables[0], (block) => rows / blockTokens - 1 - block);
  return {
    tokens: Int32Array.of(...left.tokens, ...right.tokens),
    positions: Int32Array.of(...left.positions, ...right.positions),
    sequenceOffsets: Int32Array.of(0, 20, 90),
    blockTables: [left.blockTables[0], own],
    outputs: [0, 19, 20, 21, 83, 84, 89].map((row) => ({ row, want: { kind: "hidden" } })),
  };
}
