// Tokens that a step chooses, against the host's chain of stages: every stage alone and all together, over rows from
// nearly flat to nearly certain, with ties, masks and biases.

import { expect, it } from "vitest";
import type {
  OutputRequest,
  OutputRow,
  StepInput,
  TokenPenalties,
  TokenSampling,
} from "../../src/backends/contract.js";
import { Sampler } from "../../src/sampler/sampler.js";
import { Dice, drawFloats } from "../support/dice.js";
import { FULL_RUN } from "../support/full-run.js";
import { isNearBoundary } from "../support/token-boundaries.js";
import { floats, type ProgramCase, runSteps, withProgram } from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import { describeSubjects } from "./subjects.js";

const VOCABULARY = 9003;
const ROWS = 64;
const SEEDS = FULL_RUN ? Array.from({ length: 8 }, (_, seed) => seed + 18) : [18];
/** Factors of the logits: rows from nearly flat to nearly certain. */
const SPREADS = [0, 0.05, 0.5, 1, 2, 3, 6];
/** Tokens that are drawn with one seed. */
const TOKENS = FULL_RUN ? 10_048 : 320;
const WHOLE = { temperature: 1, topK: 0, topP: 1, minP: 0 } as const;
const OFF: TokenSampling = { temperature: 1, topK: 0, typicalP: 1, topP: 1, minP: 0, minKeep: 1, draw: 0 };

/** The logits of a row are its token's factor times the values. */
function logitsCase(values: Float32Array): ProgramCase {
  return {
    vocabularySize: VOCABULARY,
    weights: {
      inputs: floats(
        [1, VOCABULARY],
        Float32Array.from({ length: VOCABULARY }, (_, token) => SPREADS[token % SPREADS.length]),
      ),
      "output.weight": floats([1, VOCABULARY], values),
    },
    build: (graph) => {
      const hidden = graph.selectRows(graph.embed("inputs", 1, VOCABULARY), "outputs");
      return {
        hidden,
        logits: graph.matmul(graph.selectRows(hidden, "scored"), "output", { inputs: 1, outputs: VOCABULARY }),
      };
    },
  };
}

/** Some of them equal, and some far from the others. */
function logitValues(dice: Dice): Float32Array {
  const values = drawFloats(VOCABULARY, (id) =>
    id % 3 === 0 ? Math.round(dice.bell() * 8) / 8 : Math.fround(dice.bell()),
  );
  for (let peak = 0; peak < 12; peak++) values[dice.below(VOCABULARY)] = 3 + peak / 4;
  return values;
}

function penaltiesFor(dice: Dice): TokenPenalties {
  const ids = [...new Set(Array.from({ length: 1 + dice.below(300) }, () => dice.below(VOCABULARY)))].sort(
    (left, right) => left - right,
  );
  return {
    ids: Int32Array.from(ids),
    factors: Float32Array.from(ids, () => dice.pick([1, 1.1, 1.5, 0.8])),
    decreases: Float32Array.from(ids, () => dice.pick([0, 0.5, 2, -0.25])),
  };
}

function samplingFor(dice: Dice): TokenSampling {
  return {
    temperature: dice.pick([0, 0.25, 0.8, 1, 1, 1.7, 1e-9, 50]),
    topK: dice.pick([0, 0, 0, 1, 40, 700, 1024, 2000]),
    typicalP: dice.pick([1, 1, 1, 0.3, 0.9, 0]),
    topP: dice.pick([1, 1, 0.95, 0.5, 0.999, 0]),
    minP: dice.pick([0, 0, 0.05, 0.5, 1e-4, 1]),
    minKeep: dice.pick([1, 1, 1, 1, 7]),
    ...(dice.below(6) === 0 ? { xtcThreshold: dice.pick([0.1, 0.01, 0]) } : {}),
    ...(dice.below(3) === 0 ? { penalties: penaltiesFor(dice) } : {}),
    draw: dice.pick([dice.between(0, 1), dice.between(0, 1), 0, 1 - Number.EPSILON]),
  };
}

function restrictionFor(dice: Dice): Pick<OutputRequest, "bias" | "allowMask"> {
  switch (dice.below(6)) {
    case 0:
      return {
        allowMask: Uint32Array.from({ length: Math.ceil(VOCABULARY / 32) }, () => dice.below(2 ** 32)),
      };
    case 1:
      return {
        bias: {
          ids: Int32Array.from({ length: 9 }, () => dice.below(VOCABULARY)),
          values: Float32Array.from({ length: 9 }, () => dice.pick([2, -3, Number.NEGATIVE_INFINITY])),
        },
      };
    case 2:
      return {
        allowMask: Uint32Array.from({ length: Math.ceil(VOCABULARY / 32) }, (_, word) => (word === 7 ? 64 : 0)),
      };
    default:
      return {};
  }
}

function stepOf(requests: readonly Omit<OutputRequest, "row">[], first = 0): StepInput {
  return {
    tokens: Int32Array.from(requests, (_, row) => first + row),
    positions: Int32Array.from(requests, (_, row) => row),
    sequenceOffsets: Int32Array.of(0, requests.length),
    blockTables: [],
    outputs: requests.map((request, row) => ({ row, ...request })),
  };
}

/** The requests, and the same rows as logits. */
function stepsOf(requests: readonly Omit<OutputRequest, "row">[]): StepInput[] {
  return [stepOf(requests), stepOf(requests.map((request) => ({ ...request, want: { kind: "logits" } })))];
}

/** Compares tokens, log-probabilities and likeliest tokens. Returns how many draws were too near to a boundary. */
function compareTokens(
  requests: readonly Omit<OutputRequest, "row">[],
  found: readonly OutputRow[],
  [expected, logits]: readonly (readonly OutputRow[])[],
): number {
  let near = 0;
  for (const [index, { want }] of requests.entries()) {
    const [row, other, whole] = [found[index], expected[index], logits[index]];
    if (want.kind !== "token" || row.kind !== "token" || other.kind !== "token" || whole.kind !== "logits")
      throw new TypeError(`row ${index} is ${row.kind}`);
    expect(row.ids).toEqual(other.ids);
    expect(row.logits).toEqual(other.logits);
    expect(row.logSum).toBeCloseTo(other.logSum, 5);
    if (row.token === other.token) expect(row.logit).toBe(other.logit);
    else if (isNearBoundary(whole, want.sampling)) near++;
    else expect({ ...want.sampling, index, token: row.token }).toEqual({ ...want.sampling, index, token: other.token });
  }
  return near;
}

const ALONE: readonly TokenSampling[] = [
  { ...OFF, temperature: 0 },
  OFF,
  { ...OFF, temperature: 0.7 },
  { ...OFF, topK: 50 },
  { ...OFF, typicalP: 0.6 },
  { ...OFF, topP: 0.9 },
  { ...OFF, minP: 0.02 },
  { ...OFF, topK: 50, xtcThreshold: 0.02 },
  { ...OFF, topK: 800, typicalP: 0.5, topP: 0.8, minP: 0.001, minKeep: 3 },
];

describeSubjects((subject) => {
  it.each(SEEDS)("are those of the host's chain (seed %i)", async (seed) => {
    const dice = new Dice(seed);
    const requests = Array.from({ length: ROWS }, (_, row) => ({
      want: {
        kind: "token" as const,
        sampling: row < ALONE.length ? { ...ALONE[row], draw: dice.between(0, 1) } : samplingFor(dice),
        top: dice.pick([0, 0, 1, 5, 20]),
      },
      ...restrictionFor(dice),
    }));
    const wanted = logitsCase(logitValues(dice));
    const expected = await referenceSteps(wanted, stepsOf(requests));
    await using backend = subject.create();
    const [found] = await runSteps(backend, wanted, [stepOf(requests)]);
    expect(compareTokens(requests, found, expected)).toBeLessThan(ROWS / 10);
  });

  it(`draw ${TOKENS} times from whole distributions as the host does with the same seed`, async () => {
    const dice = new Dice(7);
    const wanted = logitsCase(logitValues(dice));
    const [device, host] = [1, 2].map(() => new Sampler({ ...WHOLE, seed: 12 }, { vocabularySize: VOCABULARY }));
    await using backend = subject.create();
    const counts = { tokens: 0, near: 0 };
    await withProgram(backend, wanted, async (program) => {
      const asLogits = Array.from({ length: ROWS }, () => ({ want: { kind: "logits" as const } }));
      const [[rows]] = [await referenceSteps(wanted, [stepOf(asLogits)])];
      for (; counts.tokens < TOKENS; counts.tokens += ROWS) {
        const requests = asLogits.map((_, row) => ({ want: device.tokenWant(row, 0) ?? { kind: "hidden" as const } }));
        const found = await program.run(stepOf(requests), undefined);
        for (const [index, row] of found.entries()) {
          const [{ want }, logits] = [requests[index], rows[index]];
          if (row.kind !== "token" || logits.kind !== "logits" || want.kind !== "token") throw new TypeError(row.kind);
          const [token, expected] = [device.take(row), host.sample(logits).token];
          if (token === expected) continue;
          expect({ token, near: isNearBoundary(logits, want.sampling) }).toEqual({ token, near: true });
          counts.near++;
        }
      }
    });
    if (FULL_RUN) console.log(`${subject.name}: ${counts.tokens} tokens, ${counts.near} others near a boundary`);
    expect(counts.near).toBeLessThan(Math.max(2, TOKENS / 500));
  });

  it("are none where everything is forbidden, and not-finite where a row is", async () => {
    const values = logitValues(new Dice(2));
    const none = new Uint32Array(Math.ceil(VOCABULARY / 32));
    const wants = [OFF, { ...OFF, topK: 3 }, { ...OFF, topP: 0.5 }, { ...OFF, temperature: 0 }];
    const requests = wants.map((sampling) => ({ want: { kind: "token" as const, sampling, top: 1 }, allowMask: none }));
    await using backend = subject.create();
    const [rows] = await runSteps(backend, logitsCase(values), [stepOf(requests)]);
    for (const row of rows) expect(row).toMatchObject({ kind: "token", token: -1, logSum: Number.NEGATIVE_INFINITY });
    values[333] = 3e38;
    const [strays] = await runSteps(backend, logitsCase(values), [stepOf(requests, SPREADS.indexOf(2))]);
    expect(strays[0]).toEqual({ kind: "not-finite", column: 333 });
  });
});
