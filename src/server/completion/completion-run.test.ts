import { expect, test } from "vitest";
import type { CompletionPiece, CompletionSummary, ServedModel } from "../../engine/serving.js";
import { runCompletion } from "./completion-run.js";
import type { ServerContext } from "./route-context.js";
import { DEFAULT_LIMITS } from "../http/limits.js";
import type { Work } from "../http/request-tracker.js";

const SUMMARY = { choices: [{ reason: "stop", generatedTokens: 4 }] } as unknown as CompletionSummary;

function piece(atMs: number, tokens: readonly number[], choice = 0): CompletionPiece {
  return { choice, text: "", tokens, logprobs: [], atMs };
}

/** Every gap between tokens that is counted, in milliseconds. */
async function gapsOf(pieces: readonly CompletionPiece[]): Promise<readonly number[]> {
  const gaps: number[] = [];
  const metrics = {
    countCompletion: () => {},
    countTokenGap: (_: string, milliseconds: number) => gaps.push(milliseconds),
  };
  const context = { options: { limits: DEFAULT_LIMITS }, metrics } as unknown as ServerContext;
  const work = { signal: new AbortController().signal } as Work;
  const completion = {
    summary: Promise.resolve(SUMMARY),
    cancel: () => {},
    async *[Symbol.asyncIterator]() {
      yield* pieces;
    },
  };
  const model = { name: "fake", contextTokens: 100, complete: () => completion } as unknown as ServedModel;
  const settings = {
    maxTokens: 5,
    sampling: {},
    stop: [],
    choices: 1,
    topLogprobs: undefined,
    ignoreEndOfGeneration: false,
  };
  const whole = {
    ...settings,
    prompt: Int32Array.of(1),
    prompts: 1,
    deadlineMs: performance.now() + 1000,
    constraint: undefined,
  };
  await runCompletion(context, work, model, whole, () => undefined);
  return gaps;
}

test("the time between tokens is the engine's, whoever reads them how late", async () => {
  expect(await gapsOf([piece(100, [1]), piece(110, [2]), piece(150, [3, 4]), piece(900, [])])).toEqual([10, 20, 20]);
});

test("choices have times of their own", async () => {
  expect(await gapsOf([piece(100, [1], 0), piece(103, [1], 1), piece(110, [2], 0), piece(115, [2], 1)])).toEqual([
    10, 12,
  ]);
});
