import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SampleInput } from "./candidates.js";
import type { SamplerOptions } from "./options.js";
import { RandomSource } from "./rng.js";
import { Sampler } from "./sampler.js";

const VOCABULARY = 200;
const OFF = { topK: 0, topP: 1, minP: 0 } as const;

function asLogits(values: ArrayLike<number>): SampleInput {
  const logits = Float32Array.from(values);
  return { kind: "logits", logits, logSum: Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0)) };
}

/** What a backend hands over for candidates: the best first, equal logits by rising id. */
function asCandidates(values: Float32Array, count: number): SampleInput {
  const ids = Int32Array.from(values.keys()).sort((left, right) => values[right] - values[left] || left - right);
  const highest = values[ids[0]];
  const logSum = highest + Math.log(values.reduce((sum, value) => sum + Math.exp(value - highest), 0));
  const best = ids.slice(0, count);
  return { kind: "candidates", ids: best, logits: Float32Array.from(best, (id) => values[id]), logSum };
}

function randomLogits(random: RandomSource, size = VOCABULARY): Float32Array {
  // Rounded to eighths, so that ties happen.
  return Float32Array.from({ length: size }, () => Math.round((random.next() - 0.5) * 96) / 8);
}

function errorOf(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("greedy", () => {
  it("is the argmax, the lowest id among equals", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 1, maxLength: 50 }), (logits) => {
        const sampler = new Sampler({ temperature: 0 }, { vocabularySize: logits.length });
        expect(sampler.sample(asLogits(logits)).token).toBe(logits.indexOf(Math.max(...logits)));
      }),
    );
  });

  it("comes after penalties", () => {
    const sampler = new Sampler({ temperature: 0, repeatPenalty: 2 }, { vocabularySize: 3 });
    sampler.accept(0);
    expect(sampler.sample(asLogits([3, 2, 1])).token).toBe(1);
  });

  it("reports the log-probability before penalties and temperature", () => {
    const sampler = new Sampler({ temperature: 0, presencePenalty: 5 }, { vocabularySize: 3 });
    sampler.accept(0);
    const { token, logProbability } = sampler.sample(asLogits([3, 2, 1]));
    expect(token).toBe(1);
    expect(logProbability).toBeCloseTo(2 - Math.log(Math.exp(3) + Math.exp(2) + Math.exp(1)), 12);
  });
});

describe("drawing", () => {
  it("follows the distribution", () => {
    const shares = [0.5, 0.25, 0.15, 0.1];
    const sampler = new Sampler({ ...OFF, temperature: 1, seed: 11 }, { vocabularySize: 4 });
    const input = asLogits(shares.map(Math.log));
    const counts = [0, 0, 0, 0];
    for (let draw = 0; draw < 20_000; draw++) counts[sampler.sample(input).token] += 1;
    // Four standard deviations of a binomial share.
    shares.forEach((share, token) => {
      expect(Math.abs(counts[token] / 20_000 - share)).toBeLessThan(4 * Math.sqrt((share * (1 - share)) / 20_000));
    });
  });

  it("sharpens at a low temperature and flattens at a high one", () => {
    const share = (temperature: number): number => {
      const sampler = new Sampler({ ...OFF, temperature, seed: 3 }, { vocabularySize: 2 });
      let first = 0;
      for (let draw = 0; draw < 4000; draw++) if (sampler.sample(asLogits([1, 0])).token === 0) first += 1;
      return first / 4000;
    };
    expect(share(0.25)).toBeCloseTo(1 / (1 + Math.exp(-4)), 1);
    expect(share(4)).toBeCloseTo(1 / (1 + Math.exp(-0.25)), 1);
    expect(share(1e-9)).toBe(1);
  });

  it("gives the same sequence for the same seed, and another for another", () => {
    const write = (seed: number | undefined): { readonly tokens: number[]; readonly seed: number } => {
      const random = new RandomSource(99);
      const sampler = new Sampler(
        { seed, temperature: 1.5, xtcProbability: 0.3, repeatPenalty: 1.1 },
        { vocabularySize: VOCABULARY },
      );
      const tokens = Array.from({ length: 40 }, () => {
        const { token } = sampler.sample(asLogits(randomLogits(random)));
        sampler.accept(token);
        return token;
      });
      return { tokens, seed: sampler.seed };
    };
    expect(write(7).tokens).toEqual(write(7).tokens);
    expect(write(7).tokens).not.toEqual(write(8).tokens);
    expect(write(7).tokens).not.toEqual(write(7 + 2 ** 32).tokens);
    const drawn = write(undefined);
    expect(write(drawn.seed).tokens).toEqual(drawn.tokens);
  });

  it("never chooses a banned token", () => {
    const sampler = new Sampler({ ...OFF, temperature: 100, seed: 1 }, { vocabularySize: 4 });
    const input = asLogits([Number.NEGATIVE_INFINITY, 1, Number.NEGATIVE_INFINITY, 2]);
    for (let draw = 0; draw < 200; draw++) expect([1, 3]).toContain(sampler.sample(input).token);
  });
});

describe("want", () => {
  const wantOf = (
    options: Partial<SamplerOptions>,
    history: readonly number[] = [],
    vocabularySize = 5000,
  ): unknown => {
    const sampler = new Sampler(options, { vocabularySize });
    for (const token of history) sampler.accept(token);
    return sampler.want();
  };
  const candidates = (count: number): unknown => ({ kind: "candidates", count });
  const logits = { kind: "logits" };

  it("requests candidates if the other logits cannot matter", () => {
    expect(wantOf({ temperature: 0 })).toEqual(candidates(1));
    expect(wantOf({})).toEqual(candidates(40));
    expect(wantOf({ topK: 1 }, [1, 2])).toEqual(candidates(1));
    expect(wantOf({ minKeep: 50 })).toEqual(candidates(50));
    expect(wantOf({ repeatPenalty: 1.1 }, [1, 2, 2, 3])).toEqual(candidates(43));
    expect(wantOf({ repeatPenalty: 1.1, penaltyTokens: 2 }, [1, 2, 2, 3])).toEqual(candidates(42));
    expect(wantOf({ temperature: 0, presencePenalty: 1 }, [4, 5])).toEqual(candidates(3));
    expect(wantOf({ dryMultiplier: 1 }, [1, 2, 3, 9, 1, 2])).toEqual(candidates(41));
  });

  it("requests logits if they can matter", () => {
    expect(wantOf({ topK: 0 })).toEqual(logits);
    expect(wantOf({ mirostat: 2 })).toEqual(logits);
    expect(wantOf({ repeatPenalty: 0.9 }, [1])).toEqual(logits);
    expect(wantOf({ frequencyPenalty: -0.1 }, [1])).toEqual(logits);
    expect(wantOf({ topK: 1025 })).toEqual(logits);
    expect(wantOf({ topK: 40 }, [], 40)).toEqual(logits);
  });

  it("gives the same tokens from candidates as from logits", () => {
    const options = fc.record({
      temperature: fc.constantFrom(0, 0.5, 1, 2),
      topK: fc.integer({ min: 1, max: 60 }),
      topP: fc.constantFrom(1, 0.9, 0.5),
      minP: fc.constantFrom(0, 0.05),
      typicalP: fc.constantFrom(1, 0.8),
      repeatPenalty: fc.constantFrom(1, 1.3, 3),
      presencePenalty: fc.constantFrom(0, 0.5, 20),
      frequencyPenalty: fc.constantFrom(0, 0.5),
      penaltyTokens: fc.constantFrom(-1, 0, 8, 64),
      dryMultiplier: fc.constantFrom(0, 2),
      xtcProbability: fc.constantFrom(0, 0.5),
      seed: fc.nat(),
    });
    fc.assert(
      fc.property(options, fc.nat(), (chosen, logitSeed) => {
        const random = new RandomSource(logitSeed);
        const narrow = new Sampler(chosen, { vocabularySize: VOCABULARY });
        const wide = new Sampler(chosen, { vocabularySize: VOCABULARY });
        let narrowSteps = 0;
        for (let step = 0; step < 30; step++) {
          const row = randomLogits(random);
          const want = narrow.want();
          if (want.kind === "candidates") narrowSteps += 1;
          const found = narrow.sample(want.kind === "candidates" ? asCandidates(row, want.count) : asLogits(row));
          const expected = wide.sample(asLogits(row));
          expect(found.token).toBe(expected.token);
          expect(found.logProbability).toBeCloseTo(expected.logProbability, 9);
          // A short cycle among the accepted tokens gives DRY something to find.
          const accepted = step % 3 === 0 ? found.token : step % 5;
          narrow.accept(accepted);
          wide.accept(accepted);
        }
        expect(narrowSteps).toBe(30);
      }),
      { numRuns: 60 },
    );
  });
});

describe("withSeed", () => {
  it("continues from the same history, independently from there", () => {
    const options = { temperature: 1.3, repeatPenalty: 1.4, penaltyTokens: 6, dryMultiplier: 1 };
    const history = [1, 2, 3, 1, 2, 9, 4, 1, 2];
    const write = (sampler: Sampler): number[] => {
      const random = new RandomSource(4);
      return Array.from({ length: 25 }, () => {
        const { token } = sampler.sample(asLogits(randomLogits(random)));
        sampler.accept(token);
        return token;
      });
    };
    const reader = (seed: number): Sampler => {
      const sampler = new Sampler({ ...options, seed }, { vocabularySize: VOCABULARY });
      for (const token of history) sampler.accept(token);
      return sampler;
    };
    const first = reader(1);
    const twin = first.withSeed(2);
    expect(twin.seed).toBe(2);
    expect(write(twin)).toEqual(write(reader(2)));
    expect(write(first)).toEqual(write(reader(1)));
  });
});

describe("penalties", () => {
  const chosen = (options: Partial<SamplerOptions>, history: readonly number[], logits: readonly number[]): number => {
    const sampler = new Sampler({ temperature: 0, ...options }, { vocabularySize: logits.length });
    for (const token of history) sampler.accept(token);
    return sampler.sample(asLogits(logits)).token;
  };

  it("repeat divides positive and multiplies negative logits", () => {
    expect(chosen({ repeatPenalty: 2 }, [0], [4, 1.9])).toBe(0);
    expect(chosen({ repeatPenalty: 2 }, [0], [4, 2.1])).toBe(1);
    expect(chosen({ repeatPenalty: 2 }, [0], [-1, -1.9])).toBe(1);
    expect(chosen({ repeatPenalty: 2 }, [0], [-1, -2.1])).toBe(0);
  });

  it("frequency counts occurrences, presence does not", () => {
    expect(chosen({ frequencyPenalty: 1 }, [0, 0, 0], [4, 2])).toBe(1);
    expect(chosen({ frequencyPenalty: 1 }, [0], [4, 2])).toBe(0);
    expect(chosen({ presencePenalty: 1 }, [0, 0, 0], [4, 2])).toBe(0);
    expect(chosen({ presencePenalty: 2.5 }, [0], [4, 2])).toBe(1);
  });

  it("forget what has left the window", () => {
    expect(chosen({ presencePenalty: 9, penaltyTokens: 2 }, [0, 2, 2], [4, 2, 0])).toBe(0);
    expect(chosen({ presencePenalty: 9, penaltyTokens: -1 }, [0, 2, 2], [4, 2, 0])).toBe(1);
    expect(chosen({ presencePenalty: 9, penaltyTokens: 0 }, [0, 2, 2], [4, 2, 0])).toBe(0);
  });
});

describe("mirostat", () => {
  it("holds the surprise near tau", () => {
    for (const tau of [2, 4]) {
      const sampler = new Sampler(
        { mirostat: 2, mirostatTau: tau, mirostatEta: 0.1, temperature: 1, seed: 4 },
        { vocabularySize: 1000 },
      );
      // Zipf's law, as words follow it; over 6 bits of entropy if nothing is cut.
      const input = asLogits(Float32Array.from({ length: 1000 }, (_, rank) => -Math.log(rank + 1)));
      const counts = new Map<number, number>();
      const rounds = 12_000;
      for (let round = 0; round < rounds; round++) {
        const { token } = sampler.sample(input);
        if (round >= 2000) counts.set(token, (counts.get(token) ?? 0) + 1);
      }
      const entropyBits = [...counts.values()].reduce(
        (sum, count) => sum - (count / 10_000) * Math.log2(count / 10_000),
        0,
      );
      expect(Math.abs(entropyBits - tau)).toBeLessThan(0.5);
    }
  });

  it("keeps a token even when all are too surprising", () => {
    const sampler = new Sampler({ mirostat: 2, mirostatTau: 0.1, mirostatEta: 1, seed: 4 }, { vocabularySize: 64 });
    for (let round = 0; round < 50; round++)
      expect(sampler.sample(asLogits(new Float32Array(64))).token).toBeLessThan(64);
  });
});

describe("bias", () => {
  it("is handed to the step, sorted, and not applied again", () => {
    const sampler = new Sampler(
      {
        temperature: 0,
        logitBias: new Map([
          [2, 100],
          [0, Number.NEGATIVE_INFINITY],
        ]),
      },
      { vocabularySize: 3 },
    );
    expect(sampler.stepBias()).toEqual({
      ids: Int32Array.of(0, 2),
      values: Float32Array.of(Number.NEGATIVE_INFINITY, 100),
    });
    expect(sampler.sample(asLogits([3, 2, 1])).token).toBe(0);
    expect(new Sampler({}, { vocabularySize: 3 }).stepBias()).toBeUndefined();
  });

  it("bans the model's suppressed tokens, whatever bias they are given, and after a fork", () => {
    const logitBias = new Map([
      [1, 100],
      [2, 5],
    ]);
    const sampler = new Sampler({ logitBias }, { vocabularySize: 4, suppressedTokens: Int32Array.of(0, 1) });
    for (const forked of [sampler, sampler.withSeed(7)]) {
      expect(forked.stepBias()).toEqual({
        ids: Int32Array.of(0, 1, 2),
        values: Float32Array.of(Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY, 5),
      });
    }
  });

  it("rejects a token outside the vocabulary", () => {
    expect(() => new Sampler({ logitBias: new Map([[3, 1]]) }, { vocabularySize: 3 })).toThrow(/below 3, found 3/);
  });
});

describe("impossible input", () => {
  const variants: readonly Partial<SamplerOptions>[] = [
    { temperature: 0 },
    {},
    { ...OFF },
    { ...OFF, typicalP: 0.5 },
    { mirostat: 2 },
  ];

  it("rejects logits that are not finite", () => {
    for (const options of variants) {
      for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const sampler = new Sampler(options, { vocabularySize: 3 });
        expect(errorOf(() => sampler.sample(asLogits([1, bad, 2])))).toMatchObject({
          code: "BACKEND_NOT_FINITE",
          details: { token: 1 },
        });
      }
    }
  });

  it("rejects a mask that excludes every token", () => {
    for (const options of variants) {
      const sampler = new Sampler(options, { vocabularySize: 3 });
      const nothing = asLogits([Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]);
      expect(errorOf(() => sampler.sample(nothing))).toMatchObject({
        code: "OPTION_VALUE",
        message: expect.stringContaining("excludes every token"),
      });
    }
    const sampler = new Sampler({}, { vocabularySize: 100 });
    const none: SampleInput = {
      kind: "candidates",
      ids: Int32Array.from({ length: 40 }, (_, id) => id),
      logits: new Float32Array(40).fill(Number.NEGATIVE_INFINITY),
      logSum: Number.NEGATIVE_INFINITY,
    };
    expect(errorOf(() => sampler.sample(none))).toMatchObject({ code: "OPTION_VALUE" });
  });

  it("rejects fewer candidates than it requested", () => {
    const sampler = new Sampler({}, { vocabularySize: 100 });
    const two: SampleInput = { kind: "candidates", ids: Int32Array.of(1, 2), logits: Float32Array.of(2, 1), logSum: 3 };
    expect(errorOf(() => sampler.sample(two))).toMatchObject({ code: "BACKEND_STEP" });
  });

  it("rejects rows of the wrong kind or size, and tokens outside the vocabulary", () => {
    const sampler = new Sampler({ topK: 0 }, { vocabularySize: 3 });
    expect(errorOf(() => sampler.sample(asLogits([1, 2])))).toMatchObject({ code: "BACKEND_STEP" });
    expect(errorOf(() => sampler.sample(asCandidates(Float32Array.of(1, 2, 3), 2)))).toMatchObject({
      code: "BACKEND_STEP",
    });
    for (const token of [-1, 3, 0.5, Number.NaN])
      expect(errorOf(() => sampler.accept(token))).toMatchObject({ code: "TOKENIZER_TOKEN" });
  });
});
