// Positions past the chunks of chunked attention and the length from which queries are scaled: a prompt of more than 8,192 tokens
// against llama.cpp's log-probabilities, in deterministic mode and with f32 keys and values.

import { describe, expect, it } from "vitest";
import type { Backend } from "../../../src/backends/contract.js";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import { GgufLoader } from "../../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../../src/plan/execution-plan.js";
import { logProbabilities } from "../models/log-probabilities.js";
import { BEST_SUBJECT, describeCpu, describeSubjects } from "../subjects.js";
import { type LongGoldenModel, longGoldenModels } from "./golden-architectures.js";
import { FULL_RUN } from "../../support/full-run.js";

const MODELS = longGoldenModels();
const BLOCK_TOKENS = 64;

/** The largest difference from the log-probabilities at the stored positions. */
async function largestDifference(golden: LongGoldenModel, backend: Backend): Promise<number> {
  const { ids, positions, logProbs } = golden;
  await using loader = await GgufLoader.open(golden.path);
  const contextTokens = BLOCK_TOKENS * Math.ceil(ids.length / BLOCK_TOKENS);
  await using plan = ExecutionPlan.fromLoader(loader, backend, {
    blockTokens: BLOCK_TOKENS,
    contextTokens,
    kvCacheType: "f32",
  });
  using cache = plan.createKvCache(contextTokens);
  const blockTables = [Int32Array.from({ length: contextTokens / BLOCK_TOKENS }, (_, block) => block)];
  let largest = 0;
  let seen = 0;
  for (let start = 0; start < ids.length; start += plan.backend.maxStepTokens) {
    const tokens = Int32Array.from(ids.slice(start, start + plan.backend.maxStepTokens));
    const wanted = positions.filter((position) => position >= start && position < start + tokens.length);
    const rows = await plan.step(
      {
        tokens,
        positions: tokens.map((_, index) => start + index),
        sequenceOffsets: Int32Array.of(0, tokens.length),
        blockTables,
        outputs: wanted.map((position) => ({ row: position - start, want: { kind: "logits" } })),
      },
      cache,
    );
    for (const row of rows) {
      if (row.kind !== "logits") throw new Error(`logits were asked for, and ${row.kind} came`);
      const found = logProbabilities(row.logits, row.logits.length);
      for (const [token, expected] of logProbs[seen].entries())
        largest = Math.max(largest, Math.abs(found[token] - expected));
      seen++;
    }
  }
  expect(seen).toBe(positions.length);
  return largest;
}

describe.skipIf(MODELS.length === 0)("long prompts (skipped if ../shared has no golden files)", () => {
  const compare = async (golden: LongGoldenModel, backend: Backend): Promise<void> => {
    await using used = backend;
    expect(await largestDifference(golden, used)).toBeLessThan(golden.tolerance);
  };

  // Half a minute in plain TypeScript, and more on the emulated device.
  describe.runIf(FULL_RUN)("reference (in full runs)", () => {
    it.for(MODELS)("$name", async (golden) => {
      await compare(golden, new ReferenceBackend());
    });
  });

  describe.runIf(FULL_RUN)("all (in full runs)", () => {
    describeSubjects(
      (subject) => {
        it.for(MODELS)("$name", async (golden) => {
          await compare(golden, subject.create({ deterministic: true }));
        });
      },
      { waveSize: 64, oneWaveSize: true },
    );
  });

  describe.runIf(!FULL_RUN)("one backend (in short runs)", () => {
    describeCpu(BEST_SUBJECT.name, () => {
      it.for(MODELS)("$name", async (golden) => {
        await compare(golden, BEST_SUBJECT.create({ deterministic: true }));
      });
    });
  });
});
