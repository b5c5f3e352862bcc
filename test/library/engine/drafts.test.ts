// Drafts as users of the library have them: the same text in every mode, with a draft model, grammars and seeds; what is
// not possible is refused.

import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { type DraftMode, type LoadModelOptions, loadModel, type Model } from "../../../src/index.js";
import { describeCpu } from "../../conformance/subjects.js";

const fixture = (name: string): string => fileURLToPath(new URL(`../../fixtures/models/${name}`, import.meta.url));
const EMBEDDED = fileURLToPath(new URL("../../../models/fable-10m-Q4_K_M.gguf", import.meta.url));
const SIBLING = fixture("fable-10m-Q8_0.gguf");
const SMALLER = fixture("fable-3m-qwen2-Q8_0.gguf");
const STRANGER = fixture("../architectures/gemma3-Q8_0.gguf");
const PROMPTS = ["Once upon a time, there was a fox. The fox", "The fox and the crow. The fox and the crow. The fox"];

function open(options: LoadModelOptions = {}): Promise<Model> {
  return loadModel(EMBEDDED, { backend: "cpu", deterministic: true, contextTokens: 512, threads: 2, ...options });
}

async function textsOf(
  model: Model,
): Promise<{ readonly texts: string[]; readonly accepted: number; readonly drafted: number }> {
  const results = await Promise.all(
    PROMPTS.flatMap((prompt, index) => [
      model.generate(prompt, { temperature: 0, maxTokens: 60, ignoreEndOfGeneration: true }).result,
      model.generate(prompt, { temperature: 0.8, seed: index, maxTokens: 40, stop: ["fox."] }).result,
      model.generate(prompt, { temperature: 0, maxTokens: 60, regex: "( the (fox|crow|very old lion) and)+ end" })
        .result,
    ]),
  );
  return {
    texts: results.map(({ text, finishReason }) => `${finishReason}: ${text}`),
    accepted: results.reduce((sum, { timings }) => sum + timings.acceptedTokens, 0),
    drafted: results.reduce((sum, { timings }) => sum + timings.draftedTokens, 0),
  };
}

describeCpu("drafts of a model", () => {
  it("do not change a text, and count in timings and statistics", async () => {
    await using plain = await open({ draft: "off" });
    const expected = await textsOf(plain);
    expect(expected.drafted).toBe(0);
    for (const options of [
      {},
      { draft: "ngram" },
      { draftModel: SIBLING },
      { draftModel: SMALLER },
    ] satisfies LoadModelOptions[]) {
      await using model = await open(options);
      const { texts, accepted, drafted } = await textsOf(model);
      expect(texts).toEqual(expected.texts);
      expect(accepted).toBeGreaterThan(0);
      expect(model.statistics()).toMatchObject({ draftedTokens: drafted, acceptedTokens: accepted });
    }
  });

  it("come from a draft model where the text does not repeat itself", async () => {
    await using model = await open({ draftModel: SIBLING });
    const { timings } = await model.generate("A lion, a mouse and", { temperature: 0, maxTokens: 12 }).result;
    expect(timings.acceptedTokens).toBeGreaterThan(0);
  });
});

describe("drafts that are not possible", () => {
  it("refuses heads that the model does not have", async () => {
    await expect(open({ draft: "mtp" })).rejects.toThrow(/the model has no draft head \(MTP\) that can be run/);
  });

  it("refuses a mode that is none, and a draft model with drafts off", async () => {
    await expect(open({ draft: "fast" as DraftMode })).rejects.toThrow(/draft: expected one of auto, ngram, mtp, off/);
    await expect(open({ draft: "off", draftModel: SIBLING })).rejects.toThrow(/there is a `draftModel`/);
  });

  it("refuses a draft model of another vocabulary, and says where they differ", async () => {
    await expect(open({ backend: "reference", draftModel: STRANGER })).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringMatching(/expected the vocabulary of .*, and they differ first in token \d+/),
    });
  });
});
