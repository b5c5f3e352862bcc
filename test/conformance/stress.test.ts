// Steps of several models at once: different programs, thread counts and caches share the addon's threads, some are
// cancelled, some are disposed in the middle, and everyone else's results are what they are alone.

import { afterAll, beforeAll, expect, it } from "vitest";
import { Model } from "../../src/model/model.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { randomModel, randomTokens } from "./models/random-model.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { BEST_SUBJECT, describeCpu } from "./subjects.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const FAMILIES = ["llama", "qwen2", "qwen3", "glm4"] as const;
const TOKENS = 40;

beforeAll(async () => {
  for (const [index, architecture] of FAMILIES.entries()) {
    await writeGguf(
      folder.file(`${architecture}.gguf`),
      randomModel({
        seed: index,
        architecture,
        types: ["Q4_K", "Q8_0", "F16"],
        width: 256,
        heads: 4,
        kvHeads: 2,
        feedForward: 512,
        layers: 2,
        vocabulary: 300,
        context: 256,
        epsilon: 1e-5,
      }),
    );
  }
});

function openAll(): Promise<Model[]> {
  return Promise.all(
    FAMILIES.map((architecture, index) =>
      Model.open(
        folder.file(`${architecture}.gguf`),
        BEST_SUBJECT.create({ threads: 1 + (index % 3), deterministic: true }),
      ),
    ),
  );
}

/** Greedy text after a prompt of its own. */
async function write(model: Model, seed: number, signal?: AbortSignal): Promise<number[]> {
  const tokens: number[] = [];
  const options = {
    maxTokens: TOKENS,
    temperature: 0,
    ignoreEndOfGeneration: true,
    ...(signal === undefined ? {} : { signal }),
  };
  for await (const delta of model.generate(randomTokens(seed, 5 + seed * 3), options)) tokens.push(...delta.tokens);
  return tokens;
}

describeCpu("several models at once", () => {
  it("write what they write alone, while others are cancelled", async () => {
    const models = await openAll();
    try {
      const expected: number[][] = [];
      for (const [index, model] of models.entries()) expected.push(await write(model, index));
      for (let round = 0; round < 3; round++) {
        const cancelled = models.map((model, index) => {
          const abort = new AbortController();
          setTimeout(() => abort.abort(), 3 + 7 * index);
          return write(model, 20 + index, abort.signal);
        });
        const kept = models.flatMap((model, index) => [write(model, index), write(model, index)]);
        const found = await Promise.all(kept);
        for (const [index, tokens] of found.entries()) expect(tokens).toEqual(expected[index >> 1]);
        await Promise.all(cancelled);
      }
    } finally {
      await Promise.all(models.map((model) => model.dispose()));
    }
  });

  it("outlive each other's disposal in the middle of a step", async () => {
    const [first, ...others] = await openAll();
    try {
      const expected = await write(first, 1);
      const doomed = others.map((model) => write(model, 2).catch((error: unknown) => error));
      const running = write(first, 1);
      await Promise.all(others.map((model) => model.dispose()));
      expect(await running).toEqual(expected);
      for (const outcome of await Promise.all(doomed))
        expect(outcome instanceof Error || Array.isArray(outcome)).toBe(true);
    } finally {
      await first.dispose();
    }
  });
});
