// Speculation is lossless: in deterministic mode a text has the same tokens and log-probabilities with drafts as without,
// on `reference`, on every instruction set of the CPU and on the emulated GPU.

import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { openDraftModel } from "../../src/engine/open-draft-model.js";
import { openPlan } from "../../src/engine/open-plan.js";
import type { CompletionRequest } from "../../src/engine/serving.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { ModelDrafter } from "../../src/speculation/model-drafter.js";
import { Speculation } from "../../src/speculation/speculation.js";
import { FULL_RUN } from "../support/full-run.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { familyModel } from "./models/family-model.js";
import { familyCase } from "./models/family-shapes.js";
import { EAGER, expectSameTexts, expectSameTextsWith, promptsOf } from "./speculation-texts.js";
import { describeSubjects } from "./subjects.js";

const SMALL = fileURLToPath(new URL("../fixtures/models/fable-3m-qwen2-Q8_0.gguf", import.meta.url));
const WINDOWED = fileURLToPath(new URL("../fixtures/architectures/gemma3-Q8_0.gguf", import.meta.url));
const VOCABULARY = 250;

/** Greedy and sampled, with what changes logits from row to row. */
function requests(count: number, maxTokens: number): CompletionRequest[] {
  const samplings: CompletionRequest["sampling"][] = [
    { temperature: 0 },
    { temperature: 0.7, topK: 20, topP: 0.95, seed: 3 },
    { temperature: 0, repeatPenalty: 1.2, penaltyTokens: 8 },
    { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 5 },
  ];
  return promptsOf(count, VOCABULARY).map((prompt, index) => ({
    prompt,
    maxTokens,
    ignoreEndOfGeneration: true,
    sampling: samplings[index % samplings.length] ?? {},
    ...(index % 3 === 0 ? { topLogprobs: 2 } : {}),
  }));
}

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

/** A small model with recurrent layers. */
async function hybrid(family: string, seedOffset = 0): Promise<string> {
  const { seed, shape } = familyCase(family, 0);
  const path = folder.file(`${family}-${seedOffset}.gguf`);
  await writeGguf(path, familyModel(seed + seedOffset, shape));
  return path;
}

const HYBRIDS = ["qwen35", "nemotron_h", "lfm2", "mamba2"];
/** On `reference`; the others are draft models there in full runs, and on the CPU in all. */
const FEW_HYBRIDS = ["qwen35", "mamba2"];

/** Greedy texts with a draft model that has recurrent layers; how many draft tokens were verified and accepted. */
async function withDraftModel(path: string, draftPath: string, backend: () => Backend): Promise<Speculation> {
  await using device = backend();
  const { loader, plan } = await openPlan(path, device, { contextTokens: 256 });
  await using _ = loader;
  const model = await openDraftModel(draftPath, device, plan, loader.file);
  const drafter = new ModelDrafter(model, plan.program.vocabularySize);
  const drafts = new Speculation({ batchDrafter: drafter, policy: EAGER });
  const greedy = requests(6, 60).map((request) => ({ ...request, sampling: { temperature: 0 } }));
  await expectSameTextsWith(drafts, { path, backend, requests: greedy });
  const { pools } = model;
  const { stateSlots, freeStateSlots, checkpoints } = pools.stateCounts();
  expect(stateSlots - freeStateSlots - checkpoints).toBe(0);
  expect(pools.counts().freeBlocks + pools.counts().cachedBlocks).toBe(pools.counts().blocks);
  return drafts;
}

describe("reference", () => {
  it.each(FULL_RUN ? HYBRIDS : FEW_HYBRIDS)("writes the same texts with a %s as draft model", async (family) => {
    const path = await hybrid(family);
    const backend = (): ReferenceBackend => new ReferenceBackend();
    // The model itself is right wherever it drafts, another one hardly ever.
    const right = await withDraftModel(path, path, backend);
    expect(right.draftedTokens).toBeGreaterThan(20);
    expect(right.acceptedTokens).toBe(right.draftedTokens);
    const wrong = await withDraftModel(path, await hybrid(family, 1), backend);
    expect(wrong.acceptedTokens).toBeLessThan(wrong.draftedTokens);
  });

  it.each(["qwen35", "nemotron_h", "lfm2"])("writes the same texts with drafts of %s, a hybrid", async (family) => {
    const backend = (): ReferenceBackend => new ReferenceBackend();
    const path = await hybrid(family);
    const { accepted, drafted } = await expectSameTexts({ path, backend, requests: requests(6, 24) });
    expect(accepted).toBeGreaterThan(40);
    expect(drafted).toBeGreaterThan(accepted);
  });

  it("writes the same texts with drafts", async () => {
    const backend = (): ReferenceBackend => new ReferenceBackend();
    const { accepted, drafted } = await expectSameTexts({ path: SMALL, backend, requests: requests(4, 10) });
    expect(accepted).toBeGreaterThan(5);
    expect(drafted).toBeGreaterThan(accepted);
  });
});

describeSubjects(
  (subject) => {
    const isCpu = subject.name.startsWith("cpu");
    const isSlow = !isCpu && !FULL_RUN;
    it.skipIf(isSlow)("writes the same texts with drafts, to the bit (on GPUs: npm run test:full)", async () => {
      const backend = () => subject.create({ deterministic: true });
      const { accepted, drafted } = await expectSameTexts({
        path: SMALL,
        backend,
        requests: isCpu ? requests(12, 40) : requests(2, 7),
      });
      expect(accepted).toBeGreaterThan(isCpu ? 100 : 2);
      expect(drafted).toBeGreaterThan(isCpu ? accepted : 0);
    });

    if (!isCpu) return;
    it.each(HYBRIDS)("writes the same texts with a %s as draft model, to the bit", async (family) => {
      const path = await hybrid(family);
      const { draftedTokens, acceptedTokens } = await withDraftModel(path, path, () =>
        subject.create({ deterministic: true }),
      );
      expect(draftedTokens).toBeGreaterThan(20);
      expect(acceptedTokens).toBe(draftedTokens);
    });

    it.each(["qwen35", "nemotron_h", "lfm2"])("writes the same texts with drafts of %s, to the bit", async (family) => {
      const backend = () => subject.create({ deterministic: true });
      const path = await hybrid(family);
      const { accepted } = await expectSameTexts({ path, backend, requests: requests(8, 40) });
      expect(accepted).toBeGreaterThan(100);
    });

    it("writes the same texts with drafts across sliding windows", async () => {
      const backend = () => subject.create({ deterministic: true });
      const { accepted } = await expectSameTexts({ path: WINDOWED, backend, requests: requests(6, 60) });
      expect(accepted).toBeGreaterThan(50);
    });
  },
  { waveSize: 32 },
);
