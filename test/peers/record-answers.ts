// Asks llama.cpp for what test/conformance/models/recorded.test.ts compares with; `node bench/peers/record.mjs` calls it.

import { writeFileSync } from "node:fs";
import { writeGguf } from "../../src/gguf/writer.js";
import { logProbabilities } from "../conformance/models/log-probabilities.js";
import { randomModel, randomTokens, widened } from "../conformance/models/random-model.js";
import {
  ANSWERS_FILE,
  hashOfWeights,
  probes,
  RECORDED_CASES,
  RECORDED_TOKENS,
} from "../conformance/models/recorded-answers.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { peerLogits } from "./peer-logits.js";

const HOW =
  "weights widened to f32, f32 activations and KV, no flash attention, node-llama-cpp 3.22.1 (llama.cpp v0.5.0) on a CPU; " +
  "each position: token, log-probability after it, the five likeliest and three drawn ones";

export async function recordAnswers(): Promise<number> {
  using folder = new TemporaryFolder();
  const lines: string[] = [];
  for (const { name, spec } of RECORDED_CASES) {
    const model = randomModel(spec);
    await writeGguf(folder.file("model.gguf"), widened(model));
    const logits = await peerLogits(
      folder.file("model.gguf"),
      randomTokens(spec.seed, RECORDED_TOKENS),
      spec.vocabulary,
    );
    const logs = logProbabilities(logits, spec.vocabulary);
    const positions = Array.from({ length: RECORDED_TOKENS }, (_, row) =>
      probes(logs.subarray(row * spec.vocabulary, (row + 1) * spec.vocabulary), row),
    );
    lines.push(JSON.stringify({ name, weights: hashOfWeights(model), positions }));
  }
  writeFileSync(ANSWERS_FILE, `{\n"how": ${JSON.stringify(HOW)},\n"answers": [\n${lines.join(",\n")}\n]\n}\n`);
  return lines.length;
}
