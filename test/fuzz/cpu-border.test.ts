import { describe, expect, it } from "vitest";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import type { NativeAddon } from "../../src/backends/cpu/border.js";
import { Dice } from "../support/dice.js";
import { attempt, KV_OPTIONS, mutated, validSpec, validStep } from "./cpu-border.js";

const CASES = process.env["ROCMFORGE_TEST_FULL"] === "1" ? 20_000 : 1500;

function requireAddon(): NativeAddon {
  const loaded = loadAddon();
  if ("reason" in loaded) throw new Error(loaded.reason);
  return loaded.addon;
}

const addon = requireAddon();

function specFor(seed: number): ReturnType<typeof validSpec> {
  return validSpec(addon.isas[seed % addon.isas.length], 1 + (seed % 2), seed % 3 === 0);
}

async function tally(attempts: number, one: (dice: Dice, seed: number) => Promise<string>): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  for (let seed = 0; seed < attempts; seed++) {
    const outcome = await one(new Dice(seed), seed);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  return outcomes;
}

describe("the border to the CPU addon", () => {
  it("runs what is valid, on every instruction set", async () => {
    for (let seed = 0; seed < 6 * addon.isas.length; seed++) expect(await attempt(addon, specFor(seed), [validStep()], KV_OPTIONS)).toBe("ran");
  });

  it("refuses or computes mutated programs", async () => {
    const outcomes = await tally(CASES, (dice, seed) => attempt(addon, mutated(specFor(seed), dice), [validStep()], KV_OPTIONS));
    expect(outcomes["INVALID"]).toBeGreaterThan(CASES / 3);
    expect(outcomes["ran"]).toBeGreaterThan(0);
  });

  it("refuses or computes mutated steps", async () => {
    const outcomes = await tally(CASES, (dice, seed) => attempt(addon, specFor(seed), [mutated(validStep(), dice), validStep()], KV_OPTIONS));
    expect(outcomes["INVALID"]).toBeGreaterThan(CASES / 3);
    expect(outcomes["ran"]).toBeGreaterThan(0);
  });

  it("refuses or computes with mutated caches", async () => {
    const outcomes = await tally(CASES / 5, (dice, seed) => attempt(addon, specFor(seed), [validStep()], mutated(KV_OPTIONS, dice)));
    expect(outcomes["INVALID"]).toBeGreaterThan(0);
  });
});
