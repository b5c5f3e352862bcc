import { describe, expect, it } from "vitest";
import { KernelChoices } from "../lowering/kernel-choices.js";
import { type FamilyName, familyOf, KERNEL_FAMILIES, type KernelParameters } from "../lowering/kernel-families.js";
import { keyOf, type SearchBench, searchParameters, type SearchSpace } from "../../parameter-search.js";
import { isTriedFrom, triedNeighbours } from "./tried-neighbours.js";

const CHOICES = new KernelChoices({ deterministic: false });

function spaceOf(
  family: FamilyName,
  start: KernelParameters,
  isValid: SearchSpace["isValid"] = () => true,
): SearchSpace {
  return {
    start,
    isValid,
    neighbours: (from, round) => triedNeighbours({ family, isValid }, CHOICES, from, round),
  };
}

/** A bench whose kernels take the time that `model` says, with up to this share of noise on top. */
class ScriptedBench implements SearchBench {
  readonly timed: KernelParameters[] = [];
  noise = 0;
  mostTimings = Number.POSITIVE_INFINITY;
  isUsable: (parameters: KernelParameters) => boolean = () => true;
  readonly #model: (parameters: KernelParameters) => number;
  #seed = 7;

  constructor(model: (parameters: KernelParameters) => number) {
    this.#model = model;
  }

  async usable(candidates: readonly KernelParameters[]): Promise<readonly KernelParameters[]> {
    return candidates.filter((each) => this.isUsable(each));
  }

  async time(parameters: KernelParameters): Promise<number> {
    this.timed.push(parameters);
    this.#seed = (this.#seed * 16_807) % 2_147_483_647;
    return this.#model(parameters) * (1 + (this.noise * this.#seed) / 2_147_483_647);
  }

  isOver(): boolean {
    return this.timed.length >= this.mostTimings;
  }
}

/** Slower by a factor for every parameter that is not at its best. */
function distanceModel(family: FamilyName, best: KernelParameters) {
  const { parameters } = familyOf(family);
  return (found: KernelParameters): number =>
    Object.entries(parameters).reduce((time, [name, candidates]) => {
      const distance = Math.abs(candidates.indexOf(found[name]) - candidates.indexOf(best[name]));
      return time * (1 + 0.08 * distance);
    }, 20);
}

describe("a search for parameters", () => {
  it.each(Object.keys(KERNEL_FAMILIES) as FamilyName[])("finds the best of %s from poor ones", async (family) => {
    const { parameters, poor } = familyOf(family);
    const best = Object.fromEntries(
      Object.entries(parameters).map(([name, candidates]) => [name, candidates[Math.floor(candidates.length * 0.7)]]),
    );
    const bench = new ScriptedBench(distanceModel(family, best));
    bench.noise = 0.02;
    const outcome = await searchParameters(spaceOf(family, poor), bench);
    expect(outcome.best).toEqual(best);
    expect(outcome.isComplete).toBe(true);
    expect(outcome.startUs! / outcome.bestUs!).toBeGreaterThan(1.05);
    const all = Object.values(parameters).reduce((count, { length }) => count * length, 1);
    expect(outcome.tried).toBeLessThan(Math.max(12, all / 3));
  });

  it("leaves parameters as they are if all are as fast, whatever the noise", async () => {
    const start = { rows: 2, split: 2, depth: 2, threads: 128, blocks: 16 };
    const bench = new ScriptedBench(() => 20);
    bench.noise = 0.005;
    const { best, isComplete } = await searchParameters(spaceOf("gemv", start), bench);
    expect(best).toBe(start);
    expect(isComplete).toBe(true);
  });

  it("never takes a candidate that computes something else, however fast it is", async () => {
    const { poor } = familyOf("expert-sum");
    const bench = new ScriptedBench(({ rows, depth }) => (depth === 4 ? 1 : 10 + rows - depth / 10));
    bench.isUsable = ({ depth }) => depth !== 4;
    const { best, rejected } = await searchParameters(spaceOf("expert-sum", poor), bench);
    expect(best).toEqual({ rows: 1, depth: 6 });
    expect(rejected).toBeGreaterThan(0);
    expect(bench.timed.some(({ depth }) => depth === 4)).toBe(false);
  });

  it("takes no joined parameters that a launch cannot be cut by", async () => {
    const { poor } = familyOf("gemv");
    const isValid = ({ rows, threads }: KernelParameters): boolean => rows * threads <= 256;
    const bench = new ScriptedBench(({ rows, threads }) => 20 - rows - threads / 256);
    const { best } = await searchParameters(spaceOf("gemv", { ...poor, threads: 128 }, isValid), bench);
    expect(best).toMatchObject({ rows: 2, threads: 128 });
    expect(bench.timed.every(isValid)).toBe(true);
  });

  it("drops what is clearly slower after one turn", async () => {
    const start = { rows: 1, depth: 3 };
    const bench = new ScriptedBench((found) => (keyOf(found) === keyOf(start) ? 10 : 20));
    await searchParameters(spaceOf("expert-sum", start), bench);
    const slow = bench.timed.filter((found) => keyOf(found) !== keyOf(start));
    expect(slow.length).toBe(new Set(slow.map(keyOf)).size);
  });

  it.each([0, 1, 3, 12, 90])("ends when the time is up, after %i timings", async (mostTimings) => {
    const { poor } = familyOf("gemm");
    const bench = new ScriptedBench(distanceModel("gemm", { halves: 2, rows: 12, depth: 4, splits: 8 }));
    bench.mostTimings = mostTimings;
    const { best, isComplete, startUs, bestUs } = await searchParameters(spaceOf("gemm", poor), bench);
    expect(bench.timed.length).toBeLessThanOrEqual(mostTimings + 1);
    expect(isComplete).toBe(false);
    // What was not timed beside the beginning is not claimed to be faster.
    if (mostTimings <= 12) expect(keyOf(best)).toBe(keyOf(poor));
    else expect([bestUs! < startUs!, keyOf(best) === keyOf(poor)]).toEqual([true, false]);
  });
});

describe("the neighbours that are tried", () => {
  const { poor } = familyOf("gemm");
  const tried = (from: KernelParameters, name: string, round: number): readonly number[] =>
    CHOICES.neighbours("gemm", from)
      .filter((each) => each[name] !== from[name] && isTriedFrom("gemm", from, each, round))
      .map((each) => each[name]);

  it("are near and far ones of a parameter with many candidates, and all of the others", () => {
    expect(tried(poor, "rows", 0)).toEqual([1, 3, 4, 6, 10]);
    expect(tried({ ...poor, splits: 9 }, "splits", 0)).toEqual([1, 5, 7, 8, 10, 12, 16]);
    expect(tried(poor, "depth", 0)).toEqual([2, 4]);
  });

  it("are only near ones in later rounds", () => {
    expect(tried({ ...poor, rows: 9 }, "rows", 1)).toEqual([7, 8, 10, 11]);
    expect(tried(poor, "depth", 1)).toEqual([2, 4]);
  });

  it("change another parameter as well if a launch cannot be cut otherwise", () => {
    const isValid = ({ rows, depth }: KernelParameters): boolean => rows * depth <= 16;
    const found = triedNeighbours({ family: "gemm", isValid }, CHOICES, { ...poor, rows: 12 }, 1);
    expect(found.every(isValid)).toBe(true);
    expect(found).toContainEqual({ ...poor, rows: 8, depth: 2 });
    expect(found).toContainEqual({ ...poor, rows: 4, depth: 4 });
  });

  it("lead to the best of parameters that limit one another", async () => {
    const isValid = ({ halves, rows, depth }: KernelParameters): boolean => halves * rows * depth <= 16;
    const bench = new ScriptedBench(({ rows, depth, splits }) => 100 - rows * 2 - depth * 12 + Math.abs(splits - 5));
    const { best } = await searchParameters(spaceOf("gemm", poor, isValid), bench);
    expect(best).toMatchObject({ halves: 1, rows: 4, depth: 4, splits: 5 });
  });
});
