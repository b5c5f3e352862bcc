// What `reference` gives for a case, computed once for all subjects of a test file: it is plain TypeScript, and took most of
// the time of the conformance tests when every instruction set and wave size computed it again. A result is found by the
// content of all that it depends on, so that two cases share one only if nothing about them differs.

import { createHash } from "node:crypto";
import { serialize } from "node:v8";
import type { OutputRow, StepInput } from "../../src/backends/contract.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { type ProgramCase, programOf, runSteps } from "./harness.js";

type StepRows = readonly (readonly OutputRow[])[];

const results = new Map<string, Promise<StepRows>>();

/** As `runSteps` on a new `reference` backend. */
export function referenceSteps(wanted: ProgramCase, steps: readonly StepInput[]): Promise<StepRows> {
  const key = keyOf(wanted, steps);
  const known = results.get(key);
  if (known !== undefined) return known;
  const result = computeSteps(wanted, steps);
  results.set(key, result);
  return result;
}

async function computeSteps(wanted: ProgramCase, steps: readonly StepInput[]): Promise<StepRows> {
  await using reference = new ReferenceBackend();
  return await runSteps(reference, wanted, steps);
}

/** Serialized rather than as JSON, which cannot tell NaN from infinities and null. */
function keyOf(wanted: ProgramCase, steps: readonly StepInput[]): string {
  const { weights, kvCacheType, blockTokens, blocks, stateSlots } = wanted;
  const hash = createHash("sha256").update(
    serialize({ program: programOf(wanted), kvCacheType, blockTokens, blocks, stateSlots, steps }),
  );
  for (const [name, { type, shape, data }] of Object.entries(weights))
    hash.update(serialize({ name, type, shape, data }));
  return hash.digest("hex");
}
