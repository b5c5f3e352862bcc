// In deterministic mode a text does not depend on company: each of many requests gets the text that it gets alone, with
// prefixes shared or not, with blocks to spare or so few that requests lose their place and begin again.

import { describe, expect, it } from "vitest";
import { createServedModel } from "../../src/engine/served-model.js";
import type { ServingOptions } from "../../src/engine/serving-options.js";
import { loadModel, Model } from "../../src/index.js";
import { openEmulated } from "../gpu/emulated-hip.js";
import { describeEmulator } from "../hip-emulator/build.js";

const EMBEDDED = new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;
const SMALL = new URL("../fixtures/models/fable-3m-qwen2-Q8_0.gguf", import.meta.url).pathname;

const REQUESTS = 32;
/** Longer than a block, so that there is something to share. */
const OPENING = "Once upon a time there was a king who had three sons, and he loved them all, and one day he said to them: ";
const SUBJECTS = ["Go", "The fox", "My sons", "Whoever", "A golden bird", "Bring", "It is", "Never"];

function prompts(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${OPENING}${SUBJECTS[index % SUBJECTS.length]}${" and".repeat(Math.floor(index / SUBJECTS.length))}`);
}

interface Writing {
  readonly open: () => Promise<Model>;
  readonly requests: number;
  readonly maxTokens: number;
}

interface Written {
  readonly texts: readonly string[];
  readonly cachedTokens: number;
  readonly preemptions: number;
}

/** Greedy texts of all prompts, one after the other. */
async function writeAlone({ open, requests, maxTokens }: Writing): Promise<readonly string[]> {
  await using model = await open();
  const texts: string[] = [];
  for (const prompt of prompts(requests)) texts.push((await model.generate(prompt, { temperature: 0, maxTokens, ignoreEndOfGeneration: true }).finish()).text);
  return texts;
}

/** The same at once. */
async function writeTogether({ open, requests, maxTokens }: Writing, serving: ServingOptions): Promise<Written> {
  await using served = await createServedModel("model", await open(), serving);
  const answers = await Promise.all(
    prompts(requests).map(async (prompt) => {
      let text = "";
      const request = { prompt: served.tokenizer.encode(prompt), maxTokens, sampling: { temperature: 0 }, ignoreEndOfGeneration: true };
      const completion = served.complete(request);
      for await (const piece of completion) text += piece.text;
      return { text, summary: await completion.summary };
    }),
  );
  const { blocks, freeBlocks, cachedBlocks, preemptions } = served.statistics();
  expect(freeBlocks + cachedBlocks).toBe(blocks);
  return { texts: answers.map(({ text }) => text), cachedTokens: answers.reduce((total, { summary }) => total + summary.cachedTokens, 0), preemptions };
}

async function compare(writing: Writing): Promise<void> {
  const alone = await writeAlone(writing);
  const shared = await writeTogether(writing, { sharesPrefixes: true });
  expect(shared.texts).toEqual(alone);
  expect(shared.cachedTokens).toBeGreaterThan(0);
  const apart = await writeTogether(writing, { sharesPrefixes: false });
  expect(apart.texts).toEqual(alone);
  expect(apart.cachedTokens).toBe(0);
}

function openOn(backend: string, path: string): () => Promise<Model> {
  return () => loadModel(path, { backend, deterministic: true, contextTokens: 128 });
}

describe.each([
  { backend: "cpu", path: EMBEDDED, maxTokens: 24 },
  { backend: "reference", path: SMALL, maxTokens: 3 },
])("$backend, deterministic", ({ backend, path, maxTokens }) => {
  it(`gives each of ${REQUESTS} together the text it has alone, prefixes shared or not`, async () => {
    await compare({ open: openOn(backend, path), requests: REQUESTS, maxTokens });
  });
});

describeEmulator("hip on the emulated device, deterministic", () => {
  it("gives each of a few together the text it has alone, prefixes shared or not", async () => {
    // More than one chunk of prompts, so that the later ones find what the first have read.
    const open = (): Promise<Model> => Model.open(SMALL, openEmulated(32, { deterministic: true }), { contextTokens: 64 });
    await compare({ open, requests: 4, maxTokens: 3 });
  });
});

describe("cpu, deterministic, with few blocks", () => {
  it.each([true, false])("gives the same texts to those who lost their place (prefixes shared: %s)", async (sharesPrefixes) => {
    const writing = { open: openOn("cpu", EMBEDDED), requests: REQUESTS, maxTokens: 40 };
    const crowded = await writeTogether(writing, { kvCacheTokens: 288, sharesPrefixes });
    expect(crowded.preemptions).toBeGreaterThan(0);
    expect(crowded.texts).toEqual(await writeAlone(writing));
  });
});
