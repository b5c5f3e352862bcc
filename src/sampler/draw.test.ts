// The whole distribution, drawn by walking ids; and that cuts by value leave what cuts by rank did.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Candidates } from "./candidates.js";
import type { SamplerOptions } from "./options.js";
import { RandomSource } from "./rng.js";
import { Sampler } from "./sampler.js";
import { keepMinP, keepTopP } from "./truncation.js";

const VOCABULARY = 64;
const DRAWS = 40_000;
const OFF = { topK: 0, topP: 1, minP: 0 } as const;
/** Likely and unlikely ones in no order; a few are ruled out. */
const LOGITS = Float32Array.from({ length: VOCABULARY }, (_, id) =>
  id % 16 === 5 ? Number.NEGATIVE_INFINITY : Math.sin(id * 2.4) * 1.5 + 10,
);

function logSumOf(logits: Float32Array): number {
  return Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
}

function sharesOf(logits: ArrayLike<number>, temperature: number): number[] {
  const powers = Array.from(logits, (logit) => Math.exp(logit / temperature));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** Pearson's statistic, whose mean is one less than the number of possible tokens. */
function chiSquare(counts: readonly number[], shares: readonly number[]): number {
  return shares.reduce(
    (sum, share, token) => (share === 0 ? sum : sum + (counts[token] - DRAWS * share) ** 2 / (DRAWS * share)),
    0,
  );
}

function countDraws(options: Partial<SamplerOptions>, history: readonly number[], logSum: number): number[] {
  const sampler = new Sampler({ ...OFF, seed: 5, ...options }, { vocabularySize: VOCABULARY });
  for (const token of history) sampler.accept(token);
  const counts = Array<number>(VOCABULARY).fill(0);
  for (let draw = 0; draw < DRAWS; draw++)
    counts[sampler.sample({ kind: "logits", logits: LOGITS, logSum }).token] += 1;
  return counts;
}

describe("drawing from the whole vocabulary", () => {
  const logSum = logSumOf(LOGITS);
  const possible = LOGITS.filter((logit) => logit > Number.NEGATIVE_INFINITY).length;
  /** Five standard deviations above the mean. */
  const most = possible - 1 + 5 * Math.sqrt(2 * (possible - 1));

  it.each([
    ["at temperature 1", { temperature: 1 }, logSum],
    ["with a log-sum of single precision", { temperature: 1 }, Math.fround(logSum)],
    ["with a log-sum that promises too much", { temperature: 1 }, logSum + 0.5],
    ["at a low temperature", { temperature: 0.6 }, logSum],
    ["at a high temperature", { temperature: 3 }, logSum],
  ])("follows the distribution %s", (_, options, given) => {
    const counts = countDraws(options, [], given);
    expect(chiSquare(counts, sharesOf(LOGITS, options.temperature))).toBeLessThan(most);
    // The measure tells apart what differs little.
    expect(chiSquare(counts, sharesOf(LOGITS, options.temperature * 1.3))).toBeGreaterThan(most);
    for (const [token, logit] of LOGITS.entries())
      if (logit === Number.NEGATIVE_INFINITY) expect(counts[token]).toBe(0);
  });

  it("follows the distribution after penalties", () => {
    const history = [0, 1, 2, 2];
    const lowered = LOGITS.map((logit, token) => logit - history.filter((other) => other === token).length);
    const counts = countDraws({ temperature: 1, frequencyPenalty: 1 }, history, logSum);
    expect(chiSquare(counts, sharesOf(lowered, 1))).toBeLessThan(most);
    expect(chiSquare(counts, sharesOf(LOGITS, 1))).toBeGreaterThan(most);
  });

  it("is greedy near temperature 0, and even at the highest", () => {
    const highest = LOGITS.indexOf(Math.max(...LOGITS));
    expect(countDraws({ temperature: 1e-300 }, [], logSum)[highest]).toBe(DRAWS);
    const even = LOGITS.map((logit) => (logit === Number.NEGATIVE_INFINITY ? logit : 0));
    expect(chiSquare(countDraws({ temperature: 1e6 }, [], logSum), sharesOf(even, 1))).toBeLessThan(most);
  });
});

describe("samplers that take turns", () => {
  it("do not disturb one another, whatever the sizes of their vocabularies", () => {
    const write = (samplers: readonly Sampler[]): number[][] => {
      const rows = new RandomSource(1);
      const texts: number[][] = samplers.map(() => []);
      for (let round = 0; round < 30; round++) {
        for (const [index, sampler] of samplers.entries()) {
          const logits = Float32Array.from({ length: 50 * (index + 1) }, () => rows.next() * 8);
          texts[index].push(sampler.sample({ kind: "logits", logits, logSum: logSumOf(logits) }).token);
        }
      }
      return texts;
    };
    const make = (index: number): Sampler =>
      new Sampler({ topK: 0, topP: 0.9, typicalP: 0.95, seed: index }, { vocabularySize: 50 * (index + 1) });
    // Each throws its dice in both runs for the same rows; only the company differs.
    const together = write([0, 1, 2].map(make));
    const alone = [0, 1, 2].map(
      (lonely) =>
        write(
          [0, 1, 2].map((index) =>
            index === lonely ? make(index) : new Sampler({ temperature: 0 }, { vocabularySize: 50 * (index + 1) }),
          ),
        )[lonely],
    );
    expect(together).toEqual(alone);
  });
});

describe("cuts by value", () => {
  const logitArrays = fc.array(
    fc.integer({ min: -80, max: 80 }).map((value) => value / 8),
    { minLength: 1, maxLength: 300 },
  );

  function load(logits: readonly number[]): Candidates {
    const candidates = new Candidates();
    candidates.load({ kind: "logits", logits: Float32Array.from(logits), logSum: 0 });
    return candidates;
  }

  function ranked(logits: readonly number[]): number[] {
    return logits.map((_, id) => id).sort((left, right) => logits[right] - logits[left] || left - right);
  }

  function kept(candidates: Candidates): number[] {
    return Array.from({ length: candidates.length }, (_, rank) => candidates.ids[candidates.rank(rank)]);
  }

  it("leave the nucleus that a ranking of everything gives", () => {
    fc.assert(
      fc.property(
        logitArrays,
        fc.double({ min: 0, max: 0.9999, noNaN: true }),
        fc.integer({ min: 1, max: 20 }),
        (logits, topP, minKeep) => {
          const candidates = load(logits);
          keepTopP(candidates, topP, minKeep);
          const order = ranked(logits);
          const shares = sharesOf(logits, 1);
          let reached = 0;
          let count = 0;
          while (count < order.length && (count < minKeep || reached < topP)) reached += shares[order[count++]];
          expect(kept(candidates)).toEqual(order.slice(0, Math.max(count, Math.min(minKeep, order.length))));
        },
      ),
    );
  });

  it("keep likely tokens, and never fewer than the minimum", () => {
    fc.assert(
      fc.property(
        logitArrays,
        fc.double({ min: 0.0001, max: 1, noNaN: true }),
        fc.integer({ min: 1, max: 20 }),
        (logits, minP, minKeep) => {
          const candidates = load(logits);
          keepMinP(candidates, minP, minKeep);
          const floor = Math.max(...logits) + Math.log(minP);
          const likely = logits.filter((logit) => logit >= floor).length;
          expect(kept(candidates)).toEqual(ranked(logits).slice(0, Math.max(likely, minKeep)));
        },
      ),
    );
  });

  it("build no heap of what they drop", () => {
    // One likely token and many that are hopeless: what is left is what was ever ranked.
    const candidates = load([...Array<number>(1000).fill(-30), 10]);
    keepTopP(candidates, 0.9, 1);
    expect([candidates.start, candidates.end]).toEqual([0, 1]);
  });
});
