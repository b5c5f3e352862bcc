// Runs the conformance suite on a backend and compares every row with another one. Several cases are in flight, because a
// GPU's kernels are compiled when a case needs them: one case at a time would keep one processor busy. A case that fails or
// cannot run does not keep others from running, unless the device is lost.

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
  /** From the begin of its first case to the end of its last one; cases of other families may run meanwhile. */
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
  /** Maximum number of cases in flight; 1 by default. Each has its weights, cache and scratch memory on the device. */
  readonly casesAtATime?: number;
  /** Called when the last case of a family has ended. */
  onFamily?(result: FamilyResult): void;
}

/** Verifies a backend; results are in the order of `families`, whichever ends first. */
export async function verifyBackend(
  backend: Backend,
  { oracle, full, families = FAMILY_KEYS, casesAtATime = 1, onFamily = () => {} }: VerificationOptions,
): Promise<readonly FamilyResult[]> {
  const tallies = families.map((family) => new FamilyTally(family, casesOf(family, full)));
  const cases = tallies.flatMap((tally) => tally.cases.map((wanted) => ({ wanted, tally, tokens: tokensOf(wanted) })));
  // Long cases wait for the most kernels, one step after another: begun last, they would end alone.
  if (casesAtATime > 1) cases.sort((left, right) => right.tokens - left.tokens);
  await inFlight(casesAtATime, cases, async ({ wanted, tally }) => {
    tally.begin();
    tally.add(wanted, await attempt(backend, oracle, wanted));
    if (tally.isComplete) onFamily(tally.result());
  });
  return tallies.map((tally) => tally.result());
}

/** Counts the outcomes of one family's cases. */
class FamilyTally {
  readonly family: FamilyKey;
  readonly cases: readonly VerifyCase[];
  readonly #outcomes = new Map<VerifyCase, Outcome | "skipped">();
  #startMs: number | undefined;
  #endMs = 0;

  constructor(family: FamilyKey, cases: readonly VerifyCase[]) {
    this.family = family;
    this.cases = cases;
  }

  get isComplete(): boolean {
    return this.#outcomes.size === this.cases.length;
  }

  begin(): void {
    this.#startMs ??= performance.now();
  }

  add(wanted: VerifyCase, outcome: Outcome | "skipped"): void {
    this.#outcomes.set(wanted, outcome);
    this.#endMs = performance.now();
  }

  /** Failures are in the order of the suite. */
  result(): FamilyResult {
    const failed: FailedCase[] = [];
    let [passed, skipped, worst] = [0, 0, 0];
    for (const wanted of this.cases) {
      const outcome = this.#outcomes.get(wanted);
      if (outcome === undefined) continue;
      if (outcome === "skipped") {
        skipped++;
        continue;
      }
      if (Number.isFinite(outcome.error)) worst = Math.max(worst, outcome.error);
      if (outcome.what === undefined) passed++;
      else failed.push({ name: wanted.name, what: outcome.what });
    }
    const milliseconds = this.#endMs - (this.#startMs ?? this.#endMs);
    return { family: this.family, passed, failed, skipped, largestError: worst, milliseconds };
  }
}

function tokensOf({ steps }: VerifyCase): number {
  return steps.reduce((total, { tokens }) => total + tokens.length, 0);
}

/**
 * Works on all items in order, at most `atATime` at once. After a failure no item is begun; it is thrown when those in
 * flight have ended, so that they no longer use the device.
 */
async function inFlight<Item>(
  atATime: number,
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = items.values();
  let stopped = false;
  const worker = async (): Promise<void> => {
    for (let next = left.next(); next.done !== true && !stopped; next = left.next()) {
      try {
        await work(next.value);
      } catch (error) {
        stopped = true;
        throw error;
      }
    }
  };
  const workers = Array.from({ length: Math.max(1, Math.min(atATime, items.length)) }, worker);
  const outcomes = await Promise.allSettled(workers);
  const failure = outcomes.find((outcome) => outcome.status === "rejected");
  if (failure !== undefined) throw failure.reason;
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
