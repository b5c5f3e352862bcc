// The short run of the fuzzer, and proof that the fuzzer itself notices each kind of failure.

import { describe, expect, test } from "vitest";
import { fuzz, fuzzBases, mutate } from "./gguf-mutation.js";
import { Dice } from "../support/dice.js";

const CASES = 2_000;
/** Set to the seed that a failure named, to run that case alone. */
const givenSeed = process.env["ROCMFORGE_FUZZ_SEED"];

if (givenSeed !== undefined) {
  test("the case of ROCMFORGE_FUZZ_SEED", async () => {
    const report = await fuzz({ seed: Number(givenSeed), cases: 1 });
    expect(report.opened + report.refused.size).toBeGreaterThan(0);
  });
}

test(`${CASES} mutated files are opened or refused, never more`, async () => {
  const report = await fuzz({ seed: 1, cases: CASES });
  const refusals = [...report.refused.values()].reduce((sum, count) => sum + count, 0);
  expect(report.opened + refusals).toBeGreaterThanOrEqual(CASES);
  // Mutants that all fail at the first byte, or that are all harmless, would prove nothing.
  expect(report.opened).toBeGreaterThan(CASES / 20);
  expect(refusals).toBeGreaterThan(CASES / 4);
  expect(report.refused.size).toBeGreaterThanOrEqual(10);
});

describe("the fuzzer", () => {
  test("makes the same case from the same seed", () => {
    const [base] = fuzzBases();
    if (base === undefined) throw new Error("there is no base file");
    expect(mutate(base, new Dice(42)).equals(mutate(base, new Dice(42)))).toBe(true);
    expect(mutate(base, new Dice(42)).equals(mutate(base, new Dice(43)))).toBe(false);
  });

  test("notices an error of another kind, and names the seed", async () => {
    const inspect = async (): Promise<void> => {
      throw new TypeError("not ours");
    };
    await expect(fuzz({ seed: 1, cases: 100, inspect })).rejects.toThrow(/seed \d+ threw/u);
  });

  test("notices a case that takes too long", async () => {
    const inspect = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 30));
    await expect(fuzz({ seed: 1, cases: 100, inspect, maxCaseMs: 20 })).rejects.toThrow(/seed \d+ took/u);
  });

  test("notices a case that allocates too much", async () => {
    const kept: Uint8Array[] = [];
    const inspect = async (): Promise<void> => {
      kept.push(new Uint8Array(80 * 1024 * 1024));
    };
    await expect(fuzz({ seed: 1, cases: 100, inspect })).rejects.toThrow(/seed \d+ allocated/u);
  });
});
