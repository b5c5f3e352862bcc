// 10,000 greedy tokens of many prompts, with drafts and without, in deterministic mode: not one differs. The emulated
// device computes a token in about a second, and gets fewer.

import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import type { CompletionRequest } from "../../src/engine/serving.js";
import { expectSameTexts, promptsOf } from "./speculation-texts.js";
import { describeSubjects } from "./subjects.js";

const SMALL = fileURLToPath(new URL("../fixtures/models/fable-3m-qwen2-Q4_K_M.gguf", import.meta.url));
const VOCABULARY = 250;
const MAX_TOKENS = 125;

function greedy(tokens: number, maxTokens = MAX_TOKENS): CompletionRequest[] {
  return promptsOf(Math.ceil(tokens / maxTokens), VOCABULARY, 7).map((prompt) => ({
    prompt,
    maxTokens,
    ignoreEndOfGeneration: true,
    sampling: { temperature: 0 },
  }));
}

describe("reference", () => {
  it("writes 10,000 tokens alike with drafts and without", async () => {
    const { generated, accepted } = await expectSameTexts({
      path: SMALL,
      backend: () => new ReferenceBackend(),
      requests: greedy(10_000),
    });
    expect(generated).toBe(10_000);
    expect(accepted).toBeGreaterThan(1000);
  });
});

describeSubjects(
  (subject) => {
    const [tokens, maxTokens] = subject.name.startsWith("hip emulated") ? [160, 40] : [10_000, MAX_TOKENS];
    it(`writes ${tokens} tokens alike with drafts and without, to the bit`, async () => {
      const { generated, accepted } = await expectSameTexts({
        path: SMALL,
        backend: () => subject.create({ deterministic: true }),
        requests: greedy(tokens, maxTokens),
      });
      expect(generated).toBe(tokens);
      // Many sequences share the rows of a step, which limits the drafts.
      expect(accepted).toBeGreaterThan(tokens / 10);
    });
  },
  { waveSize: 32, oneWaveSize: true },
);
