// Attention as a case of the harness. Compares a backend with `reference` over steps that share one cache.

import { expect } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import { createAttentionCase } from "../../src/verify/attention-cases.js";
import { remembered } from "../support/remembered.js";
import { hiddenOf, normalisedError, type ProgramCase, runSteps } from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import type { Subject } from "./subjects.js";

export type { AttentionAttributes, CacheShape, Heads } from "../../src/verify/attention-cases.js";

const TOLERANCE = 1e-10;
/** For prefill whose queries and weights are f16, as in the matmuls around it. */
const HALVES_TOLERANCE = 1e-6;
/** More tokens than this of one sequence are prefill. */
const MOST_DECODE_TOKENS = 8;

export const attentionCase = remembered(createAttentionCase);

/** Runs the steps on `reference` and on the subject and compares every output row; prefill in f16 has its own bound. */
export async function expectAttention(
  subject: Subject,
  wanted: ProgramCase,
  steps: readonly StepInput[],
  width: number,
  tolerance = TOLERANCE,
): Promise<void> {
  await using backend = subject.create();
  const expected = await referenceSteps(wanted, steps);
  const found = await runSteps(backend, wanted, steps);
  for (const [index, rows] of expected.entries()) {
    const halves = subject.promptsInHalves && steps[index].tokens.length > MOST_DECODE_TOKENS;
    expect(normalisedError(hiddenOf(found[index], width), hiddenOf(rows, width)), `step ${index}`).toBeLessThan(
      halves ? HALVES_TOLERANCE : tolerance,
    );
  }
}
