// Recurrent layers as cases of the harness. Compares a backend with `reference` over steps that share state slots.

import { expect } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import {
  createConvCase,
  createDeltaNetCase,
  createPreviousRowCase,
  createScanCase,
} from "../../src/verify/recurrent-cases.js";
import { remembered } from "../support/remembered.js";
import { hiddenOf, normalisedError, type ProgramCase, runSteps } from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import type { Subject } from "./subjects.js";

export {
  type ConvShape,
  type DeltaNetShape,
  RECURRENT_ROWS as ROWS,
  RECURRENT_SLOTS as SLOTS,
  type ScanShape,
  type StateRun as Run,
  stepOfRuns,
} from "../../src/verify/recurrent-cases.js";

/** Of f32 arithmetic in another order. */
const TOLERANCE = 1e-10;

export const convCase = remembered(createConvCase);
/** The row of the token before, and the hidden state for the next step, as draft heads use them. */
export const previousRowCase = remembered(createPreviousRowCase);
/** A state before that of the operation checks that each has its own place in a slot. */
export const deltaNetCase = remembered(createDeltaNetCase);
export const scanCase = remembered(createScanCase);

/** Runs the steps on `reference` and on the subject and compares every output row. */
export async function expectRecurrent(
  subject: Subject,
  wanted: ProgramCase,
  steps: readonly StepInput[],
  width: number,
  tolerance = TOLERANCE,
): Promise<void> {
  await using backend = subject.create();
  const expected = await referenceSteps(wanted, steps);
  const found = await runSteps(backend, wanted, steps);
  for (const [index, rows] of expected.entries())
    expect(normalisedError(hiddenOf(found[index], width), hiddenOf(rows, width)), `step ${index}`).toBeLessThan(
      tolerance,
    );
}
