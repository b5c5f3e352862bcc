import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Candidates } from "./candidates.js";
import { drawAt } from "./draw.js";
import { RandomSource } from "./rng.js";
import { Sampler } from "./sampler.js";
import { keepMinP, keepTopK, keepTopP, keepTypical } from "./truncation.js";
import { excludeTopChoices } from "./xtc.js";

// Quarter steps, so that equal logits are common and ties are tried.
const logitArrays = fc.array(
  fc.integer({ min: -40, max: 40 }).map((value) => value / 4),
  { minLength: 1, maxLength: 60 },
);

function load(logits: readonly number[], ids = logits.map((_, index) => index)): Candidates {
  const candidates = new Candidates();
  candidates.load({ kind: "candidates", ids: Int32Array.from(ids), logits: Float32Array.from(logits), logSum: 0 });
  candidates.dropImpossible();
  return candidates;
}

function rankedIds(candidates: Candidates): number[] {
  return Array.from({ length: candidates.length }, (_, rank) => candidates.ids[candidates.rank(rank)]);
}

function sortedIds(logits: readonly number[]): number[] {
  return logits.map((_, index) => index).sort((left, right) => logits[right] - logits[left] || left - right);
}

function probabilities(logits: readonly number[]): number[] {
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
  return logits.map((logit) => Math.exp(logit) / total);
}

describe("candidates", () => {
  it("rank in any order of asking as a full sort would", () => {
    fc.assert(
      fc.property(logitArrays, fc.nat(59), (logits, first) => {
        const candidates = load(logits);
        candidates.rank(Math.min(first, logits.length - 1));
        expect(rankedIds(candidates)).toEqual(sortedIds(logits));
      }),
    );
  });

  it("find the best without ranking", () => {
    fc.assert(
      fc.property(logitArrays, (logits) => {
        expect(load(logits).best()).toBe(sortedIds(logits)[0]);
      }),
    );
  });

  it("rank a sorted, a reversed and a constant vocabulary in the time of a heap sort", () => {
    const size = 150_000;
    const shapes = [(index: number) => index, (index: number) => -index, () => 1];
    for (const shape of shapes) {
      const candidates = load(Array.from({ length: size }, (_, index) => shape(index)));
      const startMs = performance.now();
      candidates.rank(size - 1);
      expect(performance.now() - startMs).toBeLessThan(20_000);
    }
  });
});

describe("top-k", () => {
  it("keeps the k highest", () => {
    fc.assert(
      fc.property(logitArrays, fc.integer({ min: 1, max: 80 }), (logits, topK) => {
        const candidates = load(logits);
        keepTopK(candidates, topK, 1);
        expect(rankedIds(candidates)).toEqual(sortedIds(logits).slice(0, topK));
      }),
    );
  });

  it("keeps everything at 0, and never fewer than minKeep", () => {
    const candidates = load([3, 2, 1, 0]);
    keepTopK(candidates, 0, 1);
    expect(candidates.length).toBe(4);
    keepTopK(candidates, 1, 3);
    expect(candidates.length).toBe(3);
  });
});

describe("top-p", () => {
  it("keeps a smallest set that reaches the mass, made of the most likely", () => {
    fc.assert(
      fc.property(logitArrays, fc.double({ min: 0.01, max: 0.99, noNaN: true }), (logits, topP) => {
        const candidates = load(logits);
        keepTopP(candidates, topP, 1);
        const order = sortedIds(logits);
        const kept = candidates.length;
        expect(rankedIds(candidates)).toEqual(order.slice(0, kept));
        const shares = probabilities(logits);
        const massOf = (count: number): number => order.slice(0, count).reduce((sum, id) => sum + shares[id], 0);
        expect(massOf(kept)).toBeGreaterThanOrEqual(topP - 1e-9);
        if (kept > 1) expect(massOf(kept - 1)).toBeLessThan(topP + 1e-9);
      }),
    );
  });
});

describe("min-p", () => {
  it("keeps exactly the tokens within the factor of the best", () => {
    fc.assert(
      fc.property(logitArrays, fc.double({ min: 0.001, max: 1, noNaN: true }), (logits, minP) => {
        const candidates = load(logits);
        keepMinP(candidates, minP, 1);
        const floor = Math.max(...logits) + Math.log(minP);
        expect(rankedIds(candidates)).toEqual(sortedIds(logits).filter((id) => logits[id] >= floor));
      }),
    );
  });
});

describe("typical", () => {
  it("keeps the tokens closest to the expected surprise until they reach the mass", () => {
    fc.assert(
      fc.property(logitArrays, fc.double({ min: 0.05, max: 0.95, noNaN: true }), (logits, typicalP) => {
        const candidates = load(logits);
        keepTypical(candidates, typicalP, 1, new Candidates());
        const shares = probabilities(logits);
        const entropy = shares.reduce((sum, share) => sum - share * Math.log(share), 0);
        const oddity = shares.map((share) => Math.abs(-Math.log(share) - entropy));
        const kept = new Set(rankedIds(candidates));
        const oddest = Math.max(...[...kept].map((id) => oddity[id]));
        for (let id = 0; id < logits.length; id++) if (!kept.has(id)) expect(oddity[id]).toBeGreaterThan(oddest - 1e-9);
        expect([...kept].reduce((sum, id) => sum + shares[id], 0)).toBeGreaterThanOrEqual(typicalP - 1e-9);
      }),
    );
  });

  it("drops the obvious choice when the text should surprise a little", () => {
    // 0.5 and sixteen times 1/32: the expected surprise is 3 bits, the small ones have 5 and the large one 1.
    const candidates = load([Math.log(16), ...Array.from({ length: 16 }, () => 0.2)]);
    keepTypical(candidates, 0.3, 1, new Candidates());
    expect(rankedIds(candidates)).not.toContain(0);
  });
});

describe("XTC", () => {
  const likely = [Math.log(0.4), Math.log(0.3), Math.log(0.2), Math.log(0.06), Math.log(0.04)];

  it("removes the top choices save the least likely of them", () => {
    const candidates = load(likely);
    excludeTopChoices(candidates, 0.1, 1);
    expect(rankedIds(candidates)).toEqual([2, 3, 4]);
  });

  it("keeps a single likely token, and respects minKeep", () => {
    const single = load(likely);
    excludeTopChoices(single, 0.35, 1);
    expect(single.length).toBe(5);
    const guarded = load(likely);
    excludeTopChoices(guarded, 0.1, 4);
    expect(guarded.length).toBe(5);
  });

  it("acts with the given probability", () => {
    const sampler = new Sampler(
      { topK: 0, topP: 1, minP: 0, temperature: 1, xtcProbability: 0.25, xtcThreshold: 0.1, seed: 5 },
      { vocabularySize: likely.length },
    );
    let removed = 0;
    for (let round = 0; round < 4000; round++) {
      const { token } = sampler.sample({ kind: "logits", logits: Float32Array.from(likely), logSum: 0 });
      if (token >= 2) removed += 1;
    }
    // The last three have 0.3 of the probability, or all of it.
    expect(removed / 4000).toBeGreaterThan(0.25 + 0.75 * 0.3 - 0.03);
    expect(removed / 4000).toBeLessThan(0.25 + 0.75 * 0.3 + 0.03);
  });
});

describe("the whole chain", () => {
  it("does not depend on the order of the candidates", () => {
    fc.assert(
      fc.property(logitArrays, fc.nat(), fc.nat(1000), (logits, shuffleSeed, seed) => {
        const ids = logits.map((_, index) => index);
        const shuffle = new RandomSource(shuffleSeed);
        for (let index = ids.length - 1; index > 0; index--) {
          const other = Math.floor(shuffle.next() * (index + 1));
          [ids[index], ids[other]] = [ids[other], ids[index]];
        }
        const chosen = [
          load(logits),
          load(
            ids.map((id) => logits[id]),
            ids,
          ),
        ].map((candidates) => {
          const random = new RandomSource(seed);
          keepTopK(candidates, 30, 1);
          keepTypical(candidates, 0.95, 1, new Candidates());
          keepTopP(candidates, 0.9, 1);
          keepMinP(candidates, 0.02, 1);
          if (random.next() < 0.5) excludeTopChoices(candidates, 0.1, 1);
          return candidates.ids[drawAt(candidates, 0.7, random.next())];
        });
        expect(chosen[0]).toBe(chosen[1]);
      }),
    );
  });
});
