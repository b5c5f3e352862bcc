// Greedy texts of many prompts, one after the other and at once, and what must be equal between them.

import { expect } from "vitest";
import type { ServingOptions } from "../../../src/engine/serving-options.js";
import type { BackendName, Model } from "../../../src/index.js";
import { openModel } from "../../../src/model/load-model.js";

export const EMBEDDED = new URL("../../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;
export const SMALL = new URL("../../fixtures/models/fable-3m-qwen2-Q8_0.gguf", import.meta.url).pathname;

export const REQUESTS = 32;
/** Longer than a block, so that there is something to share. */
const OPENING =
  "Once upon a time there was a king who had three sons, and he loved them all, and one day he said to them: ";
const SUBJECTS = ["Go", "The fox", "My sons", "Whoever", "A golden bird", "Bring", "It is", "Never"];

function prompts(count: number): string[] {
  return Array.from(
    { length: count },
    (_, index) => `${OPENING}${SUBJECTS[index % SUBJECTS.length]}${" and".repeat(Math.floor(index / SUBJECTS.length))}`,
  );
}

export interface Writing {
  readonly open: (serving?: ServingOptions) => Promise<Model>;
  readonly requests: number;
  readonly maxTokens: number;
}

export interface Written {
  readonly texts: readonly string[];
  readonly cachedTokens: number;
  readonly preemptions: number;
}

/** Greedy texts of all prompts, one after the other. */
export async function writeAlone({ open, requests, maxTokens }: Writing): Promise<readonly string[]> {
  await using model = await open();
  const texts: string[] = [];
  for (const prompt of prompts(requests))
    texts.push((await model.generate(prompt, { temperature: 0, maxTokens, ignoreEndOfGeneration: true }).result).text);
  return texts;
}

/** The same at once. */
export async function writeTogether({ open, requests, maxTokens }: Writing, serving: ServingOptions): Promise<Written> {
  await using served = await open(serving);
  const answers = await Promise.all(
    prompts(requests).map(async (prompt) => {
      let text = "";
      const request = {
        prompt: served.tokenizer.encode(prompt),
        maxTokens,
        sampling: { temperature: 0 },
        ignoreEndOfGeneration: true,
      };
      const completion = served.engine.complete(request);
      for await (const delta of completion) text += delta.text;
      return { text, summary: await completion.summary };
    }),
  );
  const { blocks, freeBlocks, cachedBlocks, preemptions } = served.statistics();
  expect(freeBlocks + cachedBlocks).toBe(blocks);
  return {
    texts: answers.map(({ text }) => text),
    cachedTokens: answers.reduce((total, { summary }) => total + summary.cachedTokens, 0),
    preemptions,
  };
}

export async function compare(writing: Writing): Promise<void> {
  const alone = await writeAlone(writing);
  const shared = await writeTogether(writing, { sharesPrefixes: true });
  expect(shared.texts).toEqual(alone);
  expect(shared.cachedTokens).toBeGreaterThan(0);
  const apart = await writeTogether(writing, { sharesPrefixes: false });
  expect(apart.texts).toEqual(alone);
  expect(apart.cachedTokens).toBe(0);
}

/** Opens a file for texts that do not depend on batch-mates. */
export function openOn(backend: BackendName, path: string): Writing["open"] {
  const options = { backend, deterministic: true, contextTokens: 128 };
  return (serving) => openModel(path, options, serving === undefined ? {} : { serving });
}
