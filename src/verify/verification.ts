// Runs the conformance suite on a backend and compares every row with another one. A case that fails or cannot run does not
// keep others from running, unless the device is lost.

import { GpuError } from "../errors.js";
import type { Backend, OutputRow, StepInput } from "../backends/contract.js";
import { OUTPUT_WANTS, outputFault } from "../backends/output-check.js";
import { largestError } from "../backends/row-error.js";
import { runSteps, unsupportedReason } from "./program-case.js";
import { casesOf, FAMILY_KEYS, type FamilyKey, type VerifyCase } from "./suite.js";

/** A case that gave wrong results, or none. */
export interface FailedCase {
  readonly name: string;
  /** Human-readable: by how much, or the error. */
  readonly what: string;
}

/** The results of one family of cases. */
export interface FamilyResult {
  readonly family: FamilyKey;
  readonly passed: number;
  readonly failed: readonly FailedCase[];
  /** Cases that the backend does not support. */
  readonly skipped: number;
  /** Squared error over squared size of the worst row that passed or failed with a number. */
  readonly largestError: number;
  readonly milliseconds: number;
}

/** Options of a verification. */
export interface VerificationOptions {
  /** Whose results are right. */
  readonly oracle: Backend;
  /** All types and more sizes. */
  readonly full: boolean;
  /** All by default. */
  readonly families?: readonly FamilyKey[];
  /** Called before each family. */
  onFamily?(family: FamilyKey): void;
}

/** Verifies a backend family by family. */
export async function verifyBackend(
  backend: Backend,
  { oracle, full, families = FAMILY_KEYS, onFamily = () => {} }: VerificationOptions,
): Promise<readonly FamilyResult[]> {
  const results: FamilyResult[] = [];
  for (const family of families) {
    onFamily(family);
    results.push(await verifyFamily(backend, oracle, family, full));
  }
  return results;
}

async function verifyFamily(
  backend: Backend,
  oracle: Backend,
  family: FamilyKey,
  full: boolean,
): Promise<FamilyResult> {
  const start = performance.now();
  const failed: FailedCase[] = [];
  let [passed, skipped, worst] = [0, 0, 0];
  for (const wanted of casesOf(family, full)) {
    const outcome = await attempt(backend, oracle, wanted);
    if (outcome === "skipped") skipped++;
    else {
      if (Number.isFinite(outcome.error)) worst = Math.max(worst, outcome.error);
      if (outcome.what === undefined) passed++;
      else failed.push({ name: wanted.name, what: outcome.what });
    }
  }
  return { family, passed, failed, skipped, largestError: worst, milliseconds: performance.now() - start };
}

interface Outcome {
  readonly error: number;
  /** Undefined if the results are right. */
  readonly what: string | undefined;
}

async function attempt(backend: Backend, oracle: Backend, wanted: VerifyCase): Promise<Outcome | "skipped"> {
  const program = wanted.make();
  if (unsupportedReason(backend, program) !== undefined) return "skipped";
  try {
    if (wanted.outputs === true) return await outputOutcome(backend, wanted);
    const compared = program.kv === undefined ? wanted.steps.map(outputsAlone) : wanted.steps;
    const [found, expected] = [
      await runSteps(backend, program, wanted.steps),
      await runSteps(oracle, program, compared),
    ];
    return outcomeOf(found, expected, wanted);
  } catch (error) {
    if (error instanceof GpuError && error.code === "GPU_DEVICE_LOST") throw error;
    return { error: Number.POSITIVE_INFINITY, what: error instanceof Error ? error.message : String(error) };
  }
}

/** The output rows of a long step alone: without a cache they depend on themselves. */
function outputsAlone(step: StepInput): StepInput {
  const { tokens, outputs } = step;
  if (tokens.length === outputs.length) return step;
  return {
    ...step,
    tokens: Int32Array.from(outputs, ({ row }) => tokens[row]),
    positions: Int32Array.from(outputs, ({ row }) => step.positions[row]),
    sequenceOffsets: Int32Array.of(0, outputs.length),
    outputs: outputs.map(({ want }, row) => ({ row, want })),
  };
}

function outcomeOf(
  found: readonly (readonly OutputRow[])[],
  expected: readonly (readonly OutputRow[])[],
  { tolerance, steps }: VerifyCase,
): Outcome {
  let worst = 0;
  for (const [index, rows] of expected.entries()) {
    const { error, row } = largestError(found[index], rows);
    worst = Math.max(worst, error);
    if (!(error <= tolerance)) {
      const size = Number.isFinite(error) ? `off by ${(Math.sqrt(error) * 100).toPrecision(3)} %` : "not finite";
      const place = `row ${steps[index].outputs[row].row} of ${steps[index].tokens.length} tokens`;
      return { error, what: `${place} is ${size}, allowed ${(Math.sqrt(tolerance) * 100).toPrecision(3)} %` };
    }
  }
  return { error: worst, what: undefined };
}

/** Candidates and tokens against the logits that they were chosen from. */
async function outputOutcome(backend: Backend, { make, steps }: VerifyCase): Promise<Outcome> {
  const program = make();
  for (const step of steps) {
    const asked = [{ kind: "logits" } as const, ...OUTPUT_WANTS].map((want): StepInput => ({
      ...step,
      outputs: step.outputs.map(({ row }) => ({ row, want })),
    }));
    const [logits, ...answers] = await runSteps(backend, program, asked);
    const fault = outputFault(logits, answers);
    if (fault !== undefined) return { error: Number.POSITIVE_INFINITY, what: fault };
  }
  return { error: 0, what: undefined };
}
