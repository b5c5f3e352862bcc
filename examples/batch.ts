// Generates from 200 prompts. Concurrent generations are batched, which is several times as fast as one after another;
// those beyond the model's `concurrency` wait in its queue.
//   node batch.ts [model.gguf]

import { embeddedModelPath, loadModel } from "rocmforge";

await using model = await loadModel(process.argv[2] ?? embeddedModelPath());

const heroes = ["a king", "a fox", "a miller's daughter", "an old soldier", "two brothers"];
const places = ["by the sea", "in a dark forest", "at the end of the world", "in a golden castle"];
const prompts = Array.from(
  { length: 200 },
  (_, index) => `Tale ${index}: once upon a time ${places[index % 4]} there lived ${heroes[index % 5]} who`,
);

const start = performance.now();
const tales = await Promise.all(
  prompts.map((prompt, index) => model.generate(prompt, { maxTokens: 32, seed: index }).result),
);
const seconds = (performance.now() - start) / 1000;

for (const [index, { text }] of tales.slice(0, 3).entries()) console.log(`${prompts[index]}${text}\n`);
const tokens = tales.reduce((total, { usage }) => total + usage.completionTokens, 0);
console.log(`${tales.length} tales, ${tokens} tokens, ${(tokens / seconds).toFixed(0)} tokens/s in all`);
