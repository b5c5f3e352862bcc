// Models with random weights on the reference backend, against answers of llama.cpp that were recorded.

import { readFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { writeGguf } from "../../../src/gguf/writer.js";
import { loadModel } from "../../../src/index.js";
import { SUPPORTED } from "../../../src/quant/layout.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { logProbabilities } from "./log-probabilities.js";
import { randomModel, randomTokens } from "./random-model.js";
import {
  ANSWERS_FILE,
  hashOfWeights,
  RECORDED_CASES,
  RECORDED_TOKENS,
  type RecordedAnswers,
} from "./recorded-answers.js";

const TOLERANCE = 0.001;

const { answers } = JSON.parse(readFileSync(ANSWERS_FILE, "utf8")) as RecordedAnswers;
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

describe("random models against llama.cpp's recorded answers", () => {
  it("covers every block type", () => {
    const types = new Set(RECORDED_CASES.flatMap(({ spec }) => spec.types));
    expect([...types].toSorted()).toEqual(SUPPORTED.map(({ name }) => name).toSorted());
  });

  it.each(RECORDED_CASES)("$name", async ({ name, spec }) => {
    const answer = answers.find((candidate) => candidate.name === name);
    const model = randomModel(spec);
    expect(hashOfWeights(model), "the model changed: record again with `node bench/peers/record.mjs`").toBe(
      answer?.weights,
    );
    const path = folder.file("model.gguf");
    await writeGguf(path, model);
    await using loaded = await loadModel(path, { backend: "reference" });
    const logs = logProbabilities(await loaded.logits(randomTokens(spec.seed, RECORDED_TOKENS)), spec.vocabulary);
    let largest = 0;
    expect(answer?.positions).toHaveLength(RECORDED_TOKENS);
    for (const [row, pairs] of (answer?.positions ?? []).entries()) {
      for (let index = 0; index < pairs.length; index += 2) {
        largest = Math.max(largest, Math.abs(logs[row * spec.vocabulary + pairs[index]] - pairs[index + 1]));
      }
    }
    expect(largest).toBeLessThan(TOLERANCE);
  });
});
