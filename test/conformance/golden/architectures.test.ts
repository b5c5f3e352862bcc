// One small model per architecture against llama.cpp's log-probabilities: exactly on `reference`, and on the other backends
// no further away than 1.25 times what llama.cpp's own rounding moves them.

import { describe, expect, it } from "vitest";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import { FULL_RUN } from "../../support/full-run.js";
import { logProbabilities } from "../models/log-probabilities.js";
import { describeSubjects } from "../subjects.js";
import {
  type GoldenModel,
  goldenModels,
  greedyTokens,
  PROMPT_RUNS,
  promptLogits,
  withGoldenPlan,
} from "./golden-architectures.js";

const EXACT = 2e-3;
const DRIFT_RATIO = 1.25;

const MODELS = goldenModels();
/** For subjects that are slow: a plain decoder, and windows with and without quantized weights. */
const FEW_NAMES = new Set(["gemma2"]);
const FEW_MODELS = MODELS.filter(({ name }) => FEW_NAMES.has(name));
const FEW_RUNS = PROMPT_RUNS.filter(({ title }) => title === "in one go" || title.includes("beside"));

/** Absolute differences at the stored positions. */
function differences({ positions, logProbs }: GoldenModel, rows: readonly Float32Array[]): readonly number[] {
  return positions.flatMap((position, index) => {
    const found = logProbabilities(rows[position], rows[position].length);
    return logProbs[index].map((expected, token) => Math.abs(found[token] - expected));
  });
}

function best(logits: Float32Array): number {
  return logits.indexOf(logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY));
}

it("has the golden files that are kept in the repository at least", () => {
  expect(MODELS.map(({ name }) => name)).toEqual(expect.arrayContaining(["gemma2", "gemma3", "gemma3-Q8_0"]));
});

describe("reference", () => {
  it.for(MODELS)("$name", async (golden) => {
    await using backend = new ReferenceBackend();
    await withGoldenPlan(golden, backend, async (plan) => {
      // Greedy tokens below are computed one by one.
      for (const run of FULL_RUN ? PROMPT_RUNS : FEW_RUNS) {
        const rows = await promptLogits(plan, golden.ids, run);
        expect(Math.max(...differences(golden, rows)), `prompt ${run.title}`).toBeLessThan(EXACT);
        expect(rows.map(best), `prompt ${run.title}`).toEqual(golden.top.map(([token]) => token));
      }
      expect(await greedyTokens(plan, golden)).toEqual(golden.greedy);
    });
  });
});

describeSubjects(
  (subject) => {
    it.for(subject.inTurn(MODELS, FEW_MODELS))("$name", async (golden) => {
      const drift = golden.drift ?? 0;
      await using backend = subject.create();
      await withGoldenPlan(golden, backend, async (plan) => {
        for (const run of subject.cases(PROMPT_RUNS, FEW_RUNS)) {
          const found = differences(golden, await promptLogits(plan, golden.ids, run));
          const mean = found.reduce((total, difference) => total + difference, 0) / found.length;
          expect(mean, `prompt ${run.title}`).toBeLessThan(DRIFT_RATIO * drift);
        }
      });
    });
  },
  { waveSize: 64 },
);
