// An engine over a model with sliding windows: its cache grows by what windows need, texts are those of a cache that keeps
// every position, and prompts are found again in all cache groups.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadModel, type Model } from "../../../src/index.js";
import { u32 } from "../../../src/gguf/entry.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import { openModel } from "../../../src/model/load-model.js";
import { randomModel, randomTokens } from "../../conformance/models/random-model.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { undisturbedTokens } from "./undisturbed-tokens.js";

const CONTEXT = 1024;
const WINDOW = 40;
const BLOCK_TOKENS = 32;

const folder = new TemporaryFolder();
const path = folder.file("windows.gguf");
afterAll(() => folder[Symbol.dispose]());

beforeAll(() =>
  writeGguf(
    path,
    randomModel({
      seed: 8,
      architecture: "gemma3",
      types: ["F32"],
      width: 64,
      heads: 2,
      kvHeads: 1,
      headWidth: 32,
      feedForward: 96,
      layers: 4,
      vocabulary: 300,
      context: CONTEXT,
      epsilon: 1e-5,
      tied: true,
      metadata: [u32("gemma3.attention.sliding_window", WINDOW), u32("gemma3.attention.sliding_window_pattern", 2)],
    }),
  ),
);

function expectedTokens(model: Model, prompt: Int32Array, count: number): Promise<number[]> {
  return undisturbedTokens(model, prompt, { count, contextTokens: CONTEXT });
}

async function complete({ engine }: Model, prompt: Int32Array, maxTokens: number, choices = 1) {
  const completion = engine.complete({
    prompt,
    maxTokens,
    choices,
    sampling: { temperature: 0 },
    ignoreEndOfGeneration: true,
  });
  const tokens: number[][] = Array.from({ length: choices }, () => []);
  for await (const delta of completion) tokens[delta.choice].push(...delta.tokens);
  return { tokens, cachedTokens: completion.cachedTokens };
}

describe.each(["reference", "cpu"] as const)("windows on %s", (backend) => {
  let model: Model;
  beforeAll(async () => {
    model = await openModel(path, { backend, deterministic: backend === "cpu", contextTokens: CONTEXT }, {});
  });
  afterAll(() => model[Symbol.asyncDispose]());

  it("generates what a cache without windows generates, and keeps windows alone", async () => {
    const prompt = randomTokens(1, 600);
    const { tokens } = await complete(model, prompt, 30);
    expect(tokens[0]).toEqual(await expectedTokens(model, prompt, 30));
    const { blocks, freeBlocks, cachedBlocks } = model.engine.statistics();
    const [window, full] = model.plan.kvCacheBlocks(630);
    expect(full).toBe(Math.ceil(630 / BLOCK_TOKENS));
    expect(window).toBeLessThan(full);
    expect(blocks).toBeLessThanOrEqual(window + full + 1);
    expect(freeBlocks + cachedBlocks).toBe(blocks);
  });

  it("finds a prompt again, and a longer one", async () => {
    const prompt = randomTokens(2, 200);
    const first = await complete(model, prompt, 10);
    expect(first.cachedTokens).toBe(0);
    const again = await complete(model, prompt, 10);
    expect(again).toEqual({ tokens: first.tokens, cachedTokens: 192 });
    const longer = Int32Array.from([...prompt, ...first.tokens[0], ...randomTokens(3, 90)]);
    const third = await complete(model, longer, 10);
    expect(third.cachedTokens).toBe(192);
    expect(third.tokens[0]).toEqual(await expectedTokens(model, longer, 10));
  });

  it("serves several at once, with choices of one prompt", async () => {
    const prompts = [100, 333, 41, 220].map((length, index) => randomTokens(20 + index, length));
    const found = await Promise.all(prompts.map((prompt, index) => complete(model, prompt, 20, 1 + (index % 2))));
    for (const [index, { tokens }] of found.entries()) {
      const expected = await expectedTokens(model, prompts[index], 20);
      for (const choice of tokens) expect(choice).toEqual(expected);
    }
    const { blocks, freeBlocks, cachedBlocks } = model.engine.statistics();
    expect(freeBlocks + cachedBlocks).toBe(blocks);
  });

  it("counts the memory of windows by their length", () => {
    const { plan } = model;
    const whole = plan.backend.kvCacheBytes({
      ...plan.program.kv,
      blocks: CONTEXT / BLOCK_TOKENS,
      blockTokens: BLOCK_TOKENS,
      type: plan.config.kvCacheType,
    });
    const [window, full] = plan.kvCacheBlocks(CONTEXT);
    expect(plan.memory().kvCacheBytes).toBe((whole * (window + full)) / (2 * full));
  });
});

it("serves from a cache of fixed size, whose windows many sequences share", async () => {
  const serving = { kvCacheTokens: 2048, maxSequences: 4 };
  await using model = await openModel(
    path,
    { backend: "cpu", deterministic: true, contextTokens: CONTEXT },
    { serving },
  );
  const [window, full] = model.plan.kvCacheBlocks(2048, 4);
  expect(full).toBe(2048 / BLOCK_TOKENS);
  expect(window).toBeLessThan(full);
  expect(model.engine.statistics()).toMatchObject({ blocks: window + full, freeBlocks: window + full });
  expect(model.engine.contextTokens).toBe(CONTEXT);
  // Together longer than the cache, so that some wait or are preempted.
  const prompts = [500, 601, 702, 400, 555, 333].map((length, index) => randomTokens(40 + index, length));
  const found = await Promise.all(prompts.map((prompt) => complete(model, prompt, 12)));
  for (const [index, { tokens }] of found.entries())
    expect(tokens[0]).toEqual(await expectedTokens(model, prompts[index], 12));
  const { blocks, freeBlocks, cachedBlocks } = model.engine.statistics();
  expect(freeBlocks + cachedBlocks).toBe(blocks);
});

it("has one group where the context is no longer than the window", async () => {
  await using model = await loadModel(path, { backend: "reference", contextTokens: WINDOW });
  expect(model.plan.program.kv.groups).toBeUndefined();
  expect(model.plan.kvCacheBlocks(WINDOW)).toEqual([2]);
});
