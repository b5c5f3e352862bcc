// Whole models on the reference backend against llama.cpp's log-probabilities and greedy choices ("exact": f32 throughout).

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadModel, type Model } from "../../../src/index.js";
import { FULL_RUN } from "../../support/full-run.js";
import { readPacked } from "../../support/packed-json.js";

const TOLERANCE = 0.001;

interface GoldenCase {
  readonly text: string;
  readonly tokens: readonly number[];
  readonly exact: {
    readonly positions: readonly { readonly next?: number; readonly top: readonly (readonly [number, number])[] }[];
    readonly meanNll: number;
    readonly greedy: readonly number[];
  };
}

/** Each architecture and each of the mixes once, in the smallest file that has it. */
const FEW_MODELS = [
  ["fable-10m-Q4_K_M", "../../../models/fable-10m-Q4_K_M.gguf"],
  ["fable-3m-qwen2-F16", "../../fixtures/models/fable-3m-qwen2-F16.gguf"],
  ["fable-3m-qwen2-Q8_0", "../../fixtures/models/fable-3m-qwen2-Q8_0.gguf"],
] as const;
const MODELS = [
  ...FEW_MODELS,
  ["fable-10m-Q8_0", "../../fixtures/models/fable-10m-Q8_0.gguf"],
  ["fable-3m-qwen2-Q4_K_M", "../../fixtures/models/fable-3m-qwen2-Q4_K_M.gguf"],
] as const;

/** The case of hundreds of tokens runs with the smallest model, and in full runs with every one. */
const FEW_WITH_WINDOW = ["fable-3m-qwen2-Q8_0"];

const local = (path: string): string => new URL(path, import.meta.url).pathname;

describe.each(FULL_RUN ? MODELS : FEW_MODELS)("%s", (name, path) => {
  const golden = readPacked(new URL(`../../fixtures/golden/${name}.json.br`, import.meta.url)) as {
    readonly cases: Readonly<Record<string, GoldenCase>>;
  };

  // Opened once: most of a short case would be the decoding of the weights.
  let model: Model;
  beforeAll(async () => {
    model = await loadModel(local(path), { backend: "reference" });
  });
  afterAll(async () => await model[Symbol.asyncDispose]());

  const hasWindow = FULL_RUN || FEW_WITH_WINDOW.includes(name);
  const cases = Object.keys(golden.cases).filter((key) => hasWindow || key !== "window");
  it.each(cases)("%s: log-probabilities and greedy text", async (key) => {
    const { text, tokens, exact } = golden.cases[key];
    expect([...model.tokenize(text)]).toEqual(tokens);

    const logits = await model.logits(Int32Array.from(tokens));
    const width = model.vocabularySize;
    let worst = 0;
    for (const [row, { next, top }] of exact.positions.entries()) {
      const logProbability = logProbabilities(logits.subarray(row * width, (row + 1) * width));
      const wanted = [...top, ...(next === undefined ? [] : [[tokens[row + 1], next] as const])];
      for (const [token, expected] of wanted) worst = Math.max(worst, Math.abs(logProbability[token] - expected));
    }
    expect(worst).toBeLessThan(TOLERANCE);

    const chosen: number[] = [];
    const options = { maxTokens: exact.greedy.length, temperature: 0, ignoreEndOfGeneration: true };
    if (exact.greedy.length > 0) {
      for await (const delta of model.generate(Int32Array.from(tokens), options)) chosen.push(...delta.tokens);
    }
    expect(chosen).toEqual(exact.greedy);
  });
});

function logProbabilities(logits: Float32Array): Float64Array {
  const highest = logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY);
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - highest), 0);
  return Float64Array.from(logits, (logit) => logit - highest - Math.log(sum));
}
