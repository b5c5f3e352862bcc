// Asks llama.cpp for what test/conformance/models/recorded.test.ts compares with; `node bench/peers/record.mjs` calls it.

import { writePacked } from "../support/packed-json.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { familyModel } from "../conformance/models/family-model.js";
import { logProbabilities } from "../conformance/models/log-probabilities.js";
import { type RandomModel, randomModel, randomTokens, widened } from "../conformance/models/random-model.js";
import {
  ANSWERS_FILE,
  FAMILY_ANSWERS_FILE,
  FAMILY_TOKENS,
  hashOfWeights,
  RECORDED_CASES,
  RECORDED_FAMILIES,
  RECORDED_TOKENS,
  recordedPositions,
} from "../conformance/models/recorded-answers.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { peerLogits } from "./peer-logits.js";

const HOW =
  "weights widened to f32, f32 activations and KV, no flash attention, node-llama-cpp 3.22.1 (llama.cpp v0.5.0) on a CPU; " +
  "for each position the five likeliest tokens and three drawn ones, and their log-probabilities times -100,000";

export async function recordAnswers(): Promise<number> {
  const models = RECORDED_CASES.map(({ name, spec: { seed, vocabulary }, spec }) => ({
    name,
    model: randomModel(spec),
    tokens: randomTokens(seed, RECORDED_TOKENS),
    vocabulary,
  }));
  return await record(ANSWERS_FILE, models);
}

export async function recordFamilyAnswers(): Promise<number> {
  const models = RECORDED_FAMILIES.map(({ name, seed, shape, shape: { vocabularySize: vocabulary = 0 } }) => ({
    name,
    model: familyModel(seed, shape),
    tokens: randomTokens(seed, FAMILY_TOKENS),
    vocabulary,
  }));
  return await record(FAMILY_ANSWERS_FILE, models);
}

interface AskedModel {
  readonly name: string;
  readonly model: RandomModel;
  readonly tokens: Int32Array;
  readonly vocabulary: number;
}

async function record(file: URL, models: readonly AskedModel[]): Promise<number> {
  using folder = new TemporaryFolder();
  const lines: string[] = [];
  for (const { name, model, tokens, vocabulary } of models) {
    const path = folder.file("model.gguf");
    await writeGguf(path, widened(model));
    const logs = logProbabilities(await peerLogits(path, tokens, vocabulary), vocabulary);
    lines.push(JSON.stringify({ name, weights: hashOfWeights(model), ...recordedPositions(logs, vocabulary) }));
  }
  writePacked(file, `{\n"how": ${JSON.stringify(HOW)},\n"answers": [\n${lines.join(",\n")}\n]\n}\n`);
  return lines.length;
}
