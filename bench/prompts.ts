// `npm run bench -- prompts [MODEL] [BACKEND] [COUNT]`: how much faster many prompts are through `model.generate` at once
// than one after the other. A sample of the prompts is taken for the latter where the model is slow.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { BackendName, Model } from "../src/index.js";

const PROMPT_TOKENS = 16;
const NEW_TOKENS = 32;
const DEFAULT_COUNT = 200;
/** Prompts that are run one after the other take no longer than this; the rest is assumed to take as long. */
const SERIAL_LIMIT_MS = 60_000;
/** Any tokens do; these are in every vocabulary of a published model. */
const VOCABULARY = 900;
const OPTIONS = { maxTokens: NEW_TOKENS, temperature: 0, ignoreEndOfGeneration: true } as const;

export async function run([
  path,
  backend = "auto",
  countText = String(DEFAULT_COUNT),
]: readonly string[]): Promise<void> {
  const count = Number(countText);
  if (!(Number.isInteger(count) && count > 0)) throw new TypeError(`prompts: expected a count, found ${countText}`);
  // The package itself: its addon and its kernels are found from there, and not from where this file is compiled to.
  const library = pathToFileURL(join(process.cwd(), "dist", "index.js")).href;
  const { embeddedModelPath, loadModel } = (await import(library)) as typeof import("../src/index.js");
  await using model = await loadModel(path ?? embeddedModelPath(), { backend: backend as BackendName });
  await model.generate(promptOf(count), OPTIONS).result;
  const serialMs = await serialTime(model, count);
  const start = performance.now();
  await Promise.all(Array.from({ length: count }, (_, index) => model.generate(promptOf(index), OPTIONS).result));
  const togetherMs = performance.now() - start;
  const rate = (milliseconds: number): string => ((count * NEW_TOKENS * 1000) / milliseconds).toFixed(0);
  console.log(
    `prompts: ${model.name}, ${model.plan.backend.description.summary}, ${count} prompts of ${PROMPT_TOKENS} tokens, ${NEW_TOKENS} new ones each\n` +
      `  one after the other: ${rate(serialMs)} tokens/s\n` +
      `  at once: ${rate(togetherMs)} tokens/s, ${(serialMs / togetherMs).toFixed(2)} times as fast`,
  );
}

/** Of all prompts, measured on as many as there is time for; these are others than those that run at once. */
async function serialTime(model: Model, count: number): Promise<number> {
  const start = performance.now();
  let done = 0;
  while (done < count && performance.now() - start < SERIAL_LIMIT_MS) {
    await model.generate(promptOf(2 * count + done), OPTIONS).result;
    done++;
  }
  return ((performance.now() - start) / done) * count;
}

/** Prompts that have no beginning in common. */
function promptOf(index: number): Int32Array {
  return Int32Array.from({ length: PROMPT_TOKENS }, (_, token) => 1 + ((index * 131 + token * 17) % VOCABULARY));
}
