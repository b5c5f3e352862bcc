// Models with random weights on the reference backend, against answers of llama.cpp that were recorded.

import { readPacked } from "../../support/packed-json.js";
import { afterAll, describe, expect, it } from "vitest";
import { writeGguf } from "../../../src/gguf/writer.js";
import { loadModel } from "../../../src/index.js";
import { Model } from "../../../src/model/model.js";
import { SUPPORTED } from "../../../src/quant/layout.js";
import { FULL_RUN } from "../../support/full-run.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { familyModel } from "./family-model.js";
import { logProbabilities } from "./log-probabilities.js";
import { type RandomModel, randomModel, randomTokens } from "./random-model.js";
import {
  ANSWERS_FILE,
  differencesFromRecorded,
  FAMILY_ANSWERS_FILE,
  FAMILY_TOKENS,
  hashOfWeights,
  PROBES,
  RECORDED_CASES,
  RECORDED_FAMILIES,
  RECORDED_TOKENS,
  type RecordedAnswer,
  type RecordedAnswers,
} from "./recorded-answers.js";
import { tableGeluBackend } from "./table-gelu.js";

const TOLERANCE = 0.001;

/** With GELU from a table of 16-bit floats, which may round either way. */
const TABLE_MEAN = 3e-3;

const { answers } = readPacked(ANSWERS_FILE) as RecordedAnswers;
const { answers: familyAnswers } = readPacked(FAMILY_ANSWERS_FILE) as RecordedAnswers;
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

/** The model's answer; fails if there is none, if it was recorded for other weights, or if it has too few positions. */
function answerFor(name: string, model: RandomModel, positions: number): RecordedAnswer {
  const answer = [...answers, ...familyAnswers].find((candidate) => candidate.name === name);
  expect(hashOfWeights(model), "the model changed: record again with `node bench/peers/record.mjs`").toBe(
    answer?.weights,
  );
  expect(answer?.tokens).toHaveLength(positions * PROBES);
  expect(answer?.logs).toHaveLength(positions * PROBES);
  return answer as RecordedAnswer;
}

describe("random models against llama.cpp's recorded answers", () => {
  it("covers every block type", () => {
    const types = new Set(RECORDED_CASES.flatMap(({ spec }) => spec.types));
    expect([...types].toSorted()).toEqual(SUPPORTED.map(({ name }) => name).toSorted());
  });

  it.each(RECORDED_CASES)("$name", async ({ name, spec }) => {
    const model = randomModel(spec);
    const answer = answerFor(name, model, RECORDED_TOKENS);
    const path = folder.file("model.gguf");
    await writeGguf(path, model);
    await using loaded = await loadModel(path, { backend: "reference" });
    const logs = logProbabilities(await loaded.logits(randomTokens(spec.seed, RECORDED_TOKENS)), spec.vocabulary);
    expect(Math.max(...differencesFromRecorded(answer, logs, spec.vocabulary))).toBeLessThan(TOLERANCE);
  });

  it.each(RECORDED_FAMILIES.filter(({ name }) => FULL_RUN || name.endsWith("shape 0")))(
    "$name",
    async ({ name, seed, shape }) => {
      const { vocabularySize = 0, architecture } = shape;
      const model = familyModel(seed, shape);
      const answer = answerFor(name, model, FAMILY_TOKENS);
      const path = folder.file("family.gguf");
      await writeGguf(path, model);
      await using loaded = await Model.open(path, tableGeluBackend(), { contextTokens: FAMILY_TOKENS });
      const logs = logProbabilities(await loaded.logits(randomTokens(seed, FAMILY_TOKENS)), vocabularySize);
      const found = differencesFromRecorded(answer, logs, vocabularySize);
      if (!architecture.startsWith("gemma")) expect(Math.max(...found)).toBeLessThan(TOLERANCE);
      expect(found.reduce((total, difference) => total + difference, 0) / found.length).toBeLessThan(TABLE_MEAN);
    },
  );
});
