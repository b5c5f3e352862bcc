// Mixtures of experts as cases of the harness, made once for all subjects, and their rows on both sides.

import type { TestContext } from "vitest";
import type { OutputRow, StepInput } from "../../src/backends/contract.js";
import { createGroupedCase, createMixtureCase } from "../../src/verify/expert-cases.js";
import { remembered } from "../support/remembered.js";
import { plainStep, type ProgramCase, runSteps, unsupportedReason } from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import type { Subject } from "./subjects.js";

export {
  type ExpertChoice as Choice,
  expertLogits as logitsOf,
  type GroupedCase,
  isPlainType as isPlain,
  MIXTURE_WIDTH,
  type MixtureCase,
  routeByLogits as route,
  routedTable,
} from "../../src/verify/expert-cases.js";

/** One grouped matmul on inputs that are quantized already. */
export const groupedCase = remembered(createGroupedCase);
/** A feed-forward network of experts, from the norm to the sum with the residual. */
export const mixtureCase = remembered(createMixtureCase);

/** Output rows of a step: no backend refuses this many. */
const MOST_OUTPUTS = 40;

/** The tokens of a step of `count` whose rows are compared: all of a small one, some of a large one. */
function comparedRows(count: number): readonly number[] {
  const rows = Math.min(count, MOST_OUTPUTS);
  return Array.from({ length: rows }, (_, index) => Math.floor((index * count) / rows));
}

function stepOf(rows: readonly number[], count: number): StepInput {
  return { ...plainStep(count), outputs: rows.map((row) => ({ row, want: { kind: "hidden" } })) };
}

export interface ComparedStep {
  readonly count: number;
  readonly expected: readonly OutputRow[];
  readonly found: readonly OutputRow[];
}

/** Steps of `counts` tokens on `reference` and on the subject; skips with the backend's own reason if it lacks a kernel. */
export async function runBoth(
  subject: Subject,
  wanted: ProgramCase,
  counts: readonly number[],
  skip: TestContext["skip"],
): Promise<readonly ComparedStep[]> {
  await using backend = subject.create();
  const reason = unsupportedReason(backend, wanted);
  if (reason !== undefined) skip(reason);
  // A row depends on its own token alone, so one step of the compared tokens has the rows of all steps.
  const all = [...new Set(counts.flatMap(comparedRows))].toSorted((left, right) => left - right);
  const [expected] = await referenceSteps(wanted, [{ ...plainStep(all.length), tokens: Int32Array.from(all) }]);
  const found = await runSteps(
    backend,
    wanted,
    counts.map((count) => stepOf(comparedRows(count), count)),
  );
  return counts.map((count, index) => ({
    count,
    expected: comparedRows(count).map((row) => expected[all.indexOf(row)]),
    found: found[index],
  }));
}
