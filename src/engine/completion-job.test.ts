// What a request of several choices says of each, over a simulated device.

import { describe, expect, it } from "vitest";
import type { CompletionDelta } from "./serving.js";
import { END_TOKEN, SimulatedEngine } from "./testing/simulated-engine.js";

const PROMPT = Int32Array.of(3, 1, 4, 1, 5);
const WILD = { temperature: 3, topK: 0, topP: 1, minP: 0 } as const;

describe("CompletionJob", () => {
  it("says on the last delta of each choice how it ended, before the others have", async () => {
    const serving = new SimulatedEngine();
    const sampling = { ...WILD, seed: 5, logitBias: new Map([[END_TOKEN, 1]]) };
    const { deltas, summary } = await serving.read(
      serving.complete({ prompt: PROMPT, choices: 4, maxTokens: 60, sampling }),
    );
    const last = [0, 1, 2, 3].map((choice) => deltas.findLastIndex((delta) => delta.choice === choice));
    expect(last.map((index) => deltas[index]?.finished)).toEqual(summary.choices);
    expect(deltas.filter(({ finished }) => finished !== undefined)).toHaveLength(4);
    expect(new Set(summary.choices.map(({ generatedTokens }) => generatedTokens)).size).toBeGreaterThan(1);
    expect(Math.min(...last)).toBeLessThan(deltas.length - 4);
  });

  it("says so of a choice that wrote nothing", async () => {
    const serving = new SimulatedEngine();
    const silent = { temperature: 0, logitBias: new Map([[END_TOKEN, 100]]) };
    const { deltas } = await serving.read(serving.complete({ prompt: PROMPT, sampling: silent }));
    expect(deltas).toMatchObject([{ text: "", tokens: [], finished: { reason: "stop", generatedTokens: 0 } }]);
  });

  it("cancels one choice, of which it says no end, and goes on with the others", async () => {
    const serving = new SimulatedEngine();
    const job = serving.complete({
      prompt: PROMPT,
      choices: 3,
      maxTokens: 20,
      sampling: { ...WILD, seed: 1 },
      ignoreEndOfGeneration: true,
    });
    const deltas: CompletionDelta[] = [];
    for await (const delta of job) {
      deltas.push(delta);
      if (delta.choice === 1 && deltas.length < 6) job.cancel(1);
    }
    const { choices } = await job.summary;
    expect(choices.map(({ reason }) => reason)).toEqual(["length", "abort", "length"]);
    expect(choices[1]?.generatedTokens).toBeLessThan(20);
    expect(
      deltas
        .filter(({ finished }) => finished !== undefined)
        .map(({ choice }) => choice)
        .sort(),
    ).toEqual([0, 2]);
    expect(serving.pool.availableBlocks).toBe(serving.pool.blocks);
  });

  it("reads no prompt for choices that are cancelled one by one", async () => {
    const serving = new SimulatedEngine();
    const job = serving.complete({ prompt: PROMPT, choices: 3, maxTokens: 20 });
    for (const choice of [0, 1, 2]) job.cancel(choice);
    const { choices } = await job.summary;
    expect(choices.map(({ reason }) => reason)).toEqual(["abort", "abort", "abort"]);
    expect(serving.loop.statistics().steps).toBe(0);
    expect(serving.pool.availableBlocks).toBe(serving.pool.blocks);
  });

  it("gives each choice a seed of its own, also at the end of the seeds there are", async () => {
    const serving = new SimulatedEngine();
    const request = { prompt: PROMPT, maxTokens: 12, ignoreEndOfGeneration: true } as const;
    const { texts } = await serving.read(
      serving.complete({ ...request, choices: 4, sampling: { ...WILD, seed: 2 ** 53 - 1 } }),
    );
    const alone = async (seed: number) =>
      (await serving.read(serving.complete({ ...request, sampling: { ...WILD, seed } }))).texts[0];
    expect(texts).toEqual([await alone(2 ** 53 - 1), await alone(0), await alone(1), await alone(2)]);
  });
});
