import { expect, it } from "vitest";
import { describeCpu, requireAddon } from "../conformance/subjects.js";
import { OPERATIONS } from "../../src/graph/operation-table.js";
import { Dice } from "../support/dice.js";
import type { NativeStepInput } from "../../src/backends/cpu/native-bindings.js";
import { attempt, mutated, spoiltLocations, weightLocations } from "./cpu-bindings.js";
import { KV_OPTIONS, validSpec, validStep } from "./cpu-program.js";
import { FULL_RUN } from "../support/full-run.js";

const CASES = FULL_RUN ? 20_000 : 500;
const STATE_CASES = Math.floor(CASES / 3);

function specFor(seed: number): ReturnType<typeof validSpec> {
  const { isas } = requireAddon();
  return validSpec(isas[seed % isas.length], 1 + (seed % 2), seed % 3 === 0);
}

async function tally(
  attempts: number,
  one: (dice: Dice, seed: number) => Promise<string>,
): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  for (let seed = 0; seed < attempts; seed++) {
    const outcome = await one(new Dice(seed), seed);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  return outcomes;
}

describeCpu("the native bindings of the CPU addon", () => {
  it("runs what is valid, on every instruction set", async () => {
    for (let seed = 0; seed < 6 * requireAddon().isas.length; seed++)
      expect(await attempt(requireAddon(), { spec: specFor(seed), steps: [validStep()] })).toBe("ran");
  });

  it.each([...Object.keys(OPERATIONS), "rope-store"])("reads %s, and asks for its fields", (kind) => {
    const spec = { ...specFor(0), instructions: [{ kind }] };
    expect(() => requireAddon().compile(spec)).toThrow(/^program\.instructions\[0\]\.(?!kind)\w+: expected/);
  });

  it("rejects an instruction of an unknown kind", () => {
    const spec = { ...specFor(0), instructions: [{ kind: "swiglu" }] };
    expect(() => requireAddon().compile(spec)).toThrow(
      /^program\.instructions\[0\]\.kind: expected a kind of instruction/,
    );
  });

  it("refuses or computes mutated programs", async () => {
    const outcomes = await tally(CASES, (dice, seed) =>
      attempt(requireAddon(), { spec: mutated(specFor(seed), dice), steps: [validStep()] }),
    );
    expect(outcomes["INVALID"]).toBeGreaterThan(CASES / 3);
    expect(outcomes["ran"]).toBeGreaterThan(0);
  });

  it("refuses or computes mutated steps", async () => {
    const outcomes = await tally(CASES, (dice, seed) =>
      attempt(requireAddon(), { spec: specFor(seed), steps: [mutated(validStep(), dice), validStep()] }),
    );
    expect(outcomes["INVALID"]).toBeGreaterThan(CASES / 3);
    expect(outcomes["ran"]).toBeGreaterThan(0);
  });

  it("refuses or makes mutated copies of blocks", async () => {
    const outcomes = await tally(CASES, (dice, seed) =>
      attempt(requireAddon(), {
        spec: specFor(seed),
        steps: [validStep()],
        copies: mutated({ pairs: Int32Array.of(0, 4, 3, 1) }, dice).pairs,
      }),
    );
    expect(outcomes["INVALID"]).toBeGreaterThan(CASES / 3);
    expect(outcomes["ran"]).toBeGreaterThan(0);
  });

  it("refuses or computes mutated state slots", async () => {
    const { stateReads, stateWrites, ...rest } = validStep();
    const outcomes = await tally(STATE_CASES, (dice, seed) =>
      attempt(requireAddon(), {
        spec: specFor(seed),
        steps: [{ ...rest, ...mutated({ stateReads, stateWrites }, dice) } as NativeStepInput, validStep()],
      }),
    );
    expect(outcomes["INVALID"]).toBeGreaterThan(STATE_CASES / 3);
    expect(outcomes["ran"]).toBeGreaterThan(0);
  });

  it.each([
    [
      "a slot that the cache does not have",
      { stateReads: Int32Array.of(4, -1) },
      /stateReads\[0\]: expected a slot below 4/,
    ],
    [
      "no slot in the middle of a text",
      { stateReads: Int32Array.of(1, -1), positions: 3 },
      /stateReads\[1\]: expected a slot/,
    ],
    [
      "a slot that another sequence writes",
      { stateReads: Int32Array.of(2, -1) },
      /stateReads\[0\]: .*no other sequence/,
    ],
    ["too few slots", { stateWrites: Int32Array.of(0) }, /stateWrites: expected 11 entries, found 1/],
    ["no slots at all", { stateReads: undefined }, /stateReads: expected 2 entries, found 0/],
  ])("refuses %s", async (_, changed, message) => {
    const addon = requireAddon();
    const spec = specFor(1);
    const program = addon.compile(spec);
    program.bind(weightLocations(addon, spec));
    const cache = addon.createKvCache(KV_OPTIONS);
    const positions = Int32Array.of(
      0,
      1,
      2,
      3,
      4,
      5,
      6,
      7,
      8,
      "positions" in changed ? 1 : 0,
      "positions" in changed ? 2 : 1,
    );
    expect(() => program.run({ ...validStep(), ...changed, positions } as NativeStepInput, cache)).toThrow(message);
  });

  it("refuses weights that lie elsewhere than they could", async () => {
    const outcomes = await tally(CASES / 3, (dice, seed) =>
      attempt(requireAddon(), {
        spec: specFor(seed),
        steps: [validStep()],
        spoil: (locations) => spoiltLocations(locations, dice),
      }),
    );
    expect(outcomes["INVALID"]).toBeGreaterThan(CASES / 6);
  });

  it("refuses or computes with mutated caches", async () => {
    const outcomes = await tally(CASES / 5, (dice, seed) =>
      attempt(requireAddon(), { spec: specFor(seed), steps: [validStep()], kvOptions: mutated(KV_OPTIONS, dice) }),
    );
    expect(outcomes["INVALID"]).toBeGreaterThan(0);
  });
});
