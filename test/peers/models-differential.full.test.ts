// Models with random weights on the reference backend and in llama.cpp. "Exact": llama.cpp gets the same weights
// widened to f32, because it quantizes activations to 8 bits for quantised ones. "As it is": llama.cpp gets our file
// itself, which shows that the bytes mean the same to both, as closely as that quantization allows.

import { afterAll, describe, expect, it } from "vitest";
import { writeGguf } from "../../src/gguf/writer.js";
import { loadModel } from "../../src/index.js";
import { Model } from "../../src/model/model.js";
import { GEMMA_CASES, GEMMA_TOKENS } from "../conformance/models/gemma-cases.js";
import { distance, logProbabilities } from "../conformance/models/log-probabilities.js";
import { drawnCase, FAMILIES, type RandomCase, SHAPE_CASES, TYPE_CASES } from "../conformance/models/random-cases.js";
import { randomModel, randomTokens, widened } from "../conformance/models/random-model.js";
import { tableGeluBackend } from "../conformance/models/table-gelu.js";
import { heldOutExcerpt } from "../support/held-out-excerpt.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { peerIsInstalled } from "./llama-cpp.js";
import { peerLogits } from "./peer-logits.js";
import { widenFile } from "./widened-file.js";

const EXACT = 0.001;
/** With GELU from a table of 16-bit floats: an argument on the edge between two entries takes either, in every layer. */
const TABLE_EXACT = 0.02;
/** Logits of these models deviate by 3, so bytes read another way would be off by whole units. */
const ROUNDED_MEAN = 0.3;
const ROUNDED_DIVERGENCE = 0.05;
const TOKENS = 40;
/** More than one step. llama.cpp accumulates angles in f32, so that they and the results drift apart along a text. */
const LONG_TOKENS = 400;
const DRAWN_CASES = Number(process.env["ROCMFORGE_DRAWN_MODELS"] ?? 150);
const FIRST_SEED = Number(process.env["ROCMFORGE_SEED"] ?? 1_000);

const folder = new TemporaryFolder();
const seen: { name: string; largest: number }[] = [];

async function ourLogits(path: string, tokens: Int32Array): Promise<Float32Array> {
  await using model = await Model.open(path, tableGeluBackend(), { contextTokens: tokens.length });
  return await model.logits(tokens);
}

async function exactDistance({ name, spec }: RandomCase, tokens: Int32Array): Promise<number> {
  const model = randomModel(spec);
  const [ours, theirs] = [folder.file("ours.gguf"), folder.file("theirs.gguf")];
  await writeGguf(ours, model);
  await writeGguf(theirs, widened(model));
  const { largest } = distance(
    await ourLogits(ours, tokens),
    await peerLogits(theirs, tokens, spec.vocabulary),
    spec.vocabulary,
  );
  seen.push({ name, largest });
  return largest;
}

afterAll(() => {
  folder[Symbol.dispose]();
  const worst = seen.toSorted((a, b) => b.largest - a.largest).slice(0, 3);
  const words = worst.map(({ name, largest }) => `${largest.toExponential(1)} (${name})`);
  console.log(`${seen.length} models compared exactly; the largest differences: ${words.join(", ")}`);
});

describe.skipIf(!peerIsInstalled)("against llama.cpp (skipped if bench/peers is not installed)", () => {
  it.each([...TYPE_CASES, ...SHAPE_CASES])("exact: $name", async (randomCase) => {
    expect(await exactDistance(randomCase, randomTokens(randomCase.spec.seed, TOKENS))).toBeLessThan(EXACT);
  });

  it.each(GEMMA_CASES)("exact: $name", async (randomCase) => {
    expect(await exactDistance(randomCase, randomTokens(randomCase.spec.seed, GEMMA_TOKENS))).toBeLessThan(TABLE_EXACT);
  });

  it.each(Array.from({ length: DRAWN_CASES }, (_, index) => drawnCase(FIRST_SEED + index)))(
    "exact: $name",
    async (randomCase) => {
      expect(await exactDistance(randomCase, randomTokens(randomCase.spec.seed, TOKENS))).toBeLessThan(EXACT);
    },
  );

  it.each(FAMILIES)("exact: %s over a long text", async (family) => {
    const { spec } = TYPE_CASES.find(
      (candidate) => candidate.spec.architecture === family && candidate.type === "Q8_0",
    ) as RandomCase;
    const long = { name: `${family}, long`, spec: { ...spec, context: LONG_TOKENS, ropeBase: 10_000 } };
    expect(await exactDistance(long, randomTokens(1, LONG_TOKENS))).toBeLessThan(EXACT);
  });

  it.each(TYPE_CASES)("as it is: $name", async ({ spec }) => {
    const path = folder.file("both.gguf");
    await writeGguf(path, randomModel(spec));
    const tokens = randomTokens(spec.seed, TOKENS);
    const { mean, divergence } = distance(
      await ourLogits(path, tokens),
      await peerLogits(path, tokens, spec.vocabulary),
      spec.vocabulary,
    );
    expect(mean).toBeLessThan(ROUNDED_MEAN);
    expect(divergence).toBeLessThan(ROUNDED_DIVERGENCE);
  });

  it("perplexity of windows of a text", async () => {
    const source = new URL("../fixtures/models/fable-10m-Q8_0.gguf", import.meta.url).pathname;
    const text = heldOutExcerpt().slice(0, 3_000);
    const windowTokens = 256;
    await using model = await loadModel(source, { backend: "reference" });
    const tokens = model.tokenize(text);
    const windows = Math.floor(tokens.length / windowTokens);
    const wide = folder.file("wide.gguf");
    await widenFile(source, wide);
    let nll = 0;
    let scored = 0;
    for (let start = 0; start < windows * windowTokens; start += windowTokens) {
      const window = tokens.slice(start, start + windowTokens);
      window[0] = tokens[0];
      const logs = logProbabilities(await peerLogits(wide, window, model.vocabularySize), model.vocabularySize);
      for (let position = windowTokens / 2; position < windowTokens - 1; position++) {
        nll -= logs[position * model.vocabularySize + window[position + 1]];
        scored++;
      }
    }
    let last: { perplexity: number; scoredTokens: number } | undefined;
    for await (const progress of model.perplexity(text, { windowTokens })) last = progress;
    expect(windows).toBeGreaterThan(1);
    expect(last?.scoredTokens).toBe(scored);
    expect(last?.perplexity).toBeCloseTo(Math.exp(nll / scored), 3);
  });
});
