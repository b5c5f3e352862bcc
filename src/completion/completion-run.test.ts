import { expect, test } from "vitest";
import type { CompletionDelta, CompletionModel, CompletionSummary } from "./completion-model.js";
import { CompletionRun } from "./completion-run.js";
import { NO_COMPLETION_LIMITS } from "./limits.js";

const SUMMARY = { choices: [{ reason: "stop", generatedTokens: 4 }] } as unknown as CompletionSummary;

function delta(atMs: number, tokens: readonly number[], choice = 0): CompletionDelta {
  return { choice, text: "", tokens, logprobs: [], atMs };
}

/** Every gap between tokens that is counted, in milliseconds. */
async function gapsOf(deltas: readonly CompletionDelta[]): Promise<readonly number[]> {
  const gaps: number[] = [];
  const observer = {
    countCompletion: () => {},
    countTokenGap: (_: string, milliseconds: number) => gaps.push(milliseconds),
  };
  const completion = {
    summary: Promise.resolve(SUMMARY),
    cancel: () => {},
    async *[Symbol.asyncIterator]() {
      yield* deltas;
    },
  };
  const model = { name: "fake", contextTokens: 100, complete: () => completion } as unknown as CompletionModel;
  const task = {
    maxTokens: 5,
    prompt: Int32Array.of(1),
    prompts: 1,
    deadlineMs: performance.now() + 600_000,
    constraint: undefined,
    signal: undefined,
  };
  for await (const _ of new CompletionRun(model, task, { limits: NO_COMPLETION_LIMITS, observer }));
  return gaps;
}

test("the time between tokens is the engine's, however late they are read", async () => {
  expect(await gapsOf([delta(100, [1]), delta(110, [2]), delta(150, [3, 4]), delta(900, [])])).toEqual([10, 20, 20]);
});

test("choices have times of their own", async () => {
  expect(await gapsOf([delta(100, [1], 0), delta(103, [1], 1), delta(110, [2], 0), delta(115, [2], 1)])).toEqual([
    10, 12,
  ]);
});
