// What a file says about the choice of tokens, on broken headers: it is refused, or a sampler can be made of it that
// leaves a token to choose.

import { expect, test } from "vitest";
import { readModelSampling } from "../../src/engine/model-sampling.js";
import { arr, f32, i32, str, u32 } from "../../src/gguf/entry.js";
import type { GgufFile } from "../../src/gguf/file.js";
import { encodeGguf } from "../../src/gguf/writer.js";
import { Sampler } from "../../src/sampler/sampler.js";
import { checkTokenizerMetadata } from "../../src/tokenizer/tokenizer.js";
import { baseOf, fuzz } from "./gguf-mutation.js";

const TOKENS = Array.from({ length: 40 }, (_, index) => `token ${index}`);
const SAMPLING = {
  metadata: [
    str("general.architecture", "llama"),
    f32("general.sampling.temp", 0.6),
    i32("general.sampling.top_k", 20),
    f32("general.sampling.top_p", 0.95),
    f32("general.sampling.min_p", 0.01),
    f32("general.sampling.penalty_repeat", 1.05),
    i32("general.sampling.penalty_last_n", 64),
    f32("general.sampling.xtc_probability", 0.5),
    f32("general.sampling.xtc_threshold", 0.1),
    u32("general.sampling.mirostat", 2),
    f32("general.sampling.mirostat_tau", 5),
    f32("general.sampling.mirostat_eta", 0.1),
    str("tokenizer.ggml.model", "gpt2"),
    arr("tokenizer.ggml.tokens", "string", TOKENS),
    arr("tokenizer.ggml.suppress_tokens", "int32", [3, 7, 39]),
  ],
  tensors: [],
};

test("1,000 files with broken headers are refused or give a sampler", async () => {
  let sampled = 0;
  const inspect = async (file: GgufFile): Promise<void> => {
    checkTokenizerMetadata(file.metadata);
    const { recommended, suppressedTokens } = readModelSampling(file.metadata);
    const vocabularySize = TOKENS.length;
    const suppressed = suppressedTokens.filter((token) => token < vocabularySize);
    const sampler = new Sampler(recommended, { vocabularySize, suppressedTokens: suppressed });
    const logits = new Float32Array(vocabularySize);
    for (const [index, id] of sampler.stepBias()?.ids.entries() ?? [])
      logits[id] += sampler.stepBias()?.values[index] ?? 0;
    const allowed = logits.filter((logit) => logit === 0).length;
    if (allowed === 0) throw new TypeError("no token is left");
    const { token } = sampler.sample({ kind: "logits", logits, logSum: Math.log(allowed) });
    if (suppressed.includes(token)) throw new TypeError("a suppressed token was chosen");
    sampled++;
  };
  const base = baseOf(Buffer.from(encodeGguf(SAMPLING)));
  const { opened, refused } = await fuzz({ seed: 70_000, cases: 1000, bases: [base], inspect });
  expect(sampled).toBeGreaterThan(100);
  expect(opened).toBe(sampled);
  expect([...refused.values()].reduce((sum, count) => sum + count, opened)).toBe(1000);
});
