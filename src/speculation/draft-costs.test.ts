import { describe, expect, it } from "vitest";
import { DraftCosts } from "./draft-costs.js";

const MOST = 15;

/** A device whose steps take 10 ms, and `tokenMs` for each token after the first. */
function measuredCosts(tokenMs: number, sequences: readonly number[] = [1]): DraftCosts {
  const costs = new DraftCosts();
  for (const count of sequences) {
    for (let step = 0; step < 50; step++) costs.measured(10 + tokenMs * (count - 1), count, 0);
    for (let step = 0; step < 50; step++) costs.measured(10 + tokenMs * (count + 3), count, 4);
  }
  return costs;
}

describe("DraftCosts", () => {
  it("drafts longer the more is accepted, and nothing if nothing is", () => {
    const costs = measuredCosts(1.5);
    const lengths = [0, 0.1, 0.4, 0.8, 0.98].map((acceptance) => costs.bestLength(acceptance, 1, MOST));
    expect(lengths.slice(0, 2)).toEqual([0, 0]);
    expect(lengths[4]).toBeGreaterThan(8);
    expect(lengths).toEqual([...lengths].sort((left, right) => left - right));
  });

  it("drafts less the more a token costs, and nothing if it costs a whole step", () => {
    const lengths = [0.2, 1, 3, 10].map((tokenMs) => measuredCosts(tokenMs).bestLength(0.8, 1, MOST));
    expect(lengths).toEqual([...lengths].sort((left, right) => right - left));
    expect(lengths[3]).toBe(0);
  });

  it("stops past the batch size at which drafts do not pay", () => {
    const costs = measuredCosts(1, [1, 4, 8, 16, 64]);
    expect(costs.bestLength(0.8, 1, MOST)).toBeGreaterThan(2);
    expect(costs.bestLength(0.8, 64, MOST)).toBe(0);
    const gpu = measuredCosts(0.05, [1, 16]);
    expect(gpu.bestLength(0.8, 16, MOST)).toBeGreaterThan(2);
  });

  it("does not exceed the limit, and drafts modestly before anything is measured", () => {
    expect(measuredCosts(0).bestLength(1, 1, 3)).toBe(3);
    expect(new DraftCosts().bestLength(0.8, 1, MOST)).toBeGreaterThan(0);
    expect(new DraftCosts().bestLength(0.8, 32, MOST)).toBe(0);
  });

  it("is not misled for long by one step that compiled kernels", () => {
    const costs = measuredCosts(0.5);
    const before = costs.bestLength(0.8, 1, MOST);
    costs.measured(5000, 1, 4);
    expect(costs.bestLength(0.8, 1, MOST)).toBeGreaterThan(0);
    for (let step = 0; step < 20; step++) costs.measured(12, 1, 4);
    expect(costs.bestLength(0.8, 1, MOST)).toBe(before);
  });

  it("counts what a drafter with steps of its own takes", () => {
    const costs = measuredCosts(0.5);
    for (let draft = 0; draft < 32; draft++) costs.drafted(80, 10);
    expect(costs.bestLength(0.6, 1, MOST, true)).toBe(0);
    expect(costs.bestLength(0.6, 1, MOST)).toBeGreaterThan(0);
  });

  it("drafts the same for a sequence alone, however the times of its steps vary", () => {
    const lengths = Array.from({ length: 20 }, (_, run) => {
      const costs = new DraftCosts();
      // A small generator: some runs have slow steps at other places than others.
      let state = run + 1;
      const noise = (): number => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
      return Array.from({ length: 200 }, (_unused, step) => {
        const tokens = step % 3 === 0 ? 4 : 0;
        costs.measured(10 * (1 + 0.15 * tokens) * (0.9 + 0.4 * noise()) + (noise() < 0.05 ? 40 : 0), 1, tokens);
        return costs.bestLength(0.8, 1, MOST);
      });
    });
    for (const run of lengths) expect(run).toEqual(lengths[0]);
  });

  it("follows a cost that is far from the first guess, and tries again after a long time", () => {
    const costs = measuredCosts(9);
    expect(costs.bestLength(0.8, 1, MOST)).toBe(0);
    for (let step = 0; step < 1100; step++) costs.measured(10, 1, 0);
    expect(costs.bestLength(0.8, 1, MOST)).toBeGreaterThan(0);
  });
});
