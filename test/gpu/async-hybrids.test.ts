// A model with recurrent layers behind an engine on the emulated device, in deterministic mode: steps that are queued
// before the previous one has ended give the texts of steps one after the other, with drafts between them, and the states
// after an answer are there for the request that continues it.

import { afterAll, expect, it } from "vitest";
import { readChatTemplates } from "../../src/chat/template/chat-templates.js";
import { Engine } from "../../src/engine/engine.js";
import { readModelSampling } from "../../src/engine/model-sampling.js";
import { openPlan } from "../../src/engine/open-plan.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { Speculation } from "../../src/speculation/speculation.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";
import { familyModel } from "../conformance/models/family-model.js";
import { familyCase } from "../conformance/models/family-shapes.js";
import { EAGER, KnownTextDrafter } from "../conformance/speculation-texts.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeEmulator } from "./emulator/build.js";
import { openEmulated } from "./emulated-hip.js";

const CONTEXT = 128;
const ANSWER_TOKENS = 14;
const PROMPTS = [3, 9, 17].map((length) => Int32Array.from({ length }, (_, index) => (index * 37 + length) % 200));

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

interface EngineOptions {
  readonly path: string;
  readonly queuesEarly: boolean;
  readonly drafts?: Speculation;
}

/** Runs `use` with an engine; returns how many of its steps were queued early. */
async function withEngine(
  { path, queuesEarly, drafts }: EngineOptions,
  use: (engine: Engine) => Promise<void>,
): Promise<number> {
  await using backend = openEmulated(32, { deterministic: true });
  const { loader, plan } = await openPlan(path, backend, { contextTokens: CONTEXT });
  await using _ = loader;
  let early = 0;
  const { metadata } = loader.file;
  const tokenizer = createTokenizer(metadata);
  const watched = new Proxy(plan, {
    get(target, name) {
      if (name === "asyncScheduling") return queuesEarly && target.asyncScheduling;
      const value: unknown = Reflect.get(target, name, target);
      if (name !== "step") return typeof value === "function" ? (value.bind(target) as unknown) : value;
      return (...args: Parameters<typeof plan.step>) => {
        if (args[0].previousOutputs !== undefined) early++;
        return target.step(...args);
      };
    },
  });
  await using engine = new Engine({
    name: "hybrid",
    plan: watched,
    hasVocabulary: true,
    tokenizer: () => tokenizer,
    chatTemplates: () => readChatTemplates(metadata),
    readHeader: () => loader.file.readHeader(),
    sampling: readModelSampling(metadata),
    growsKvCache: true,
    drafting: drafts ?? ({ draft: "off" } as const),
  });
  await use(engine);
  return early;
}

async function answerTo(engine: Engine, prompt: Int32Array, seed: number) {
  const sampling = seed % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, topK: 20, seed };
  const request = { prompt, maxTokens: ANSWER_TOKENS, ignoreEndOfGeneration: true, sampling };
  const completion = engine.complete(request);
  const tokens: number[] = [];
  for await (const delta of completion) tokens.push(...delta.tokens);
  return { tokens, cachedTokens: (await completion.summary).cachedTokens };
}

describeEmulator("recurrent layers in steps that are queued early", () => {
  it.each(["qwen35", "mamba2"])("give the same texts: %s", async (family) => {
    const path = folder.file(`${family}.gguf`);
    const { seed, shape } = familyCase(family, 0);
    await writeGguf(path, familyModel(seed, { ...shape, predictingLayers: 0, context: 256 }));
    const expected: (readonly number[])[] = [];
    await withEngine({ path, queuesEarly: false }, async (engine) => {
      for (const [index, prompt] of PROMPTS.entries()) expected.push((await answerTo(engine, prompt, index)).tokens);
    });
    const texts = PROMPTS.map((prompt, index) => [...prompt, ...expected[index]]);
    const drafts = new Speculation({ textDrafter: () => new KnownTextDrafter(texts), policy: EAGER });
    for (const speculation of [undefined, drafts]) {
      const options = { path, queuesEarly: true, ...(speculation === undefined ? {} : { drafts: speculation }) };
      const early = await withEngine(options, async (engine) => {
        const answers = await Promise.all(PROMPTS.map((prompt, index) => answerTo(engine, prompt, index)));
        expect(answers.map(({ tokens }) => tokens)).toEqual(expected);
        const [first] = texts;
        const next = await answerTo(engine, Int32Array.from([...first, 5, 6, 7]), 0);
        // The last token of an answer was in no step.
        expect(next.cachedTokens).toBe(first.length - 1);
        const { freeStateSlots, checkpoints, stateSlots } = engine.statistics();
        expect(freeStateSlots + checkpoints).toBe(stateSlots);
      });
      if (speculation === undefined) expect(early).toBeGreaterThan(ANSWER_TOKENS);
    }
    expect(drafts.acceptedTokens).toBeGreaterThan(0);
  });
});
