// An engine over models with recurrent layers: sequences that are cut, forked, preempted, resumed and edited generate
// bit-exactly what undisturbed ones generate, and prefixes are reused up to exact token positions.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { arr, u32 } from "../../../src/gguf/entry.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import type { Model } from "../../../src/index.js";
import { openModel } from "../../../src/model/load-model.js";
import { type FamilyShape, familyModel } from "../../conformance/models/family-model.js";
import { randomTokens } from "../../conformance/models/random-model.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { undisturbedTokens } from "./undisturbed-tokens.js";

const CONTEXT = 512;

const MAMBA = [
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 16),
  u32("ssm.group_count", 1),
  u32("ssm.time_step_rank", 2),
  u32("ssm.inner_size", 64),
];

/** Delta nets with attention, Mamba-2 without any, and convolutions with attention in a sliding window. */
const SHAPES: readonly (FamilyShape & { readonly architecture: string })[] = [
  {
    architecture: "qwen35",
    layers: 4,
    headWidth: 16,
    rotaryWidth: 8,
    keys: () => [
      u32("full_attention_interval", 2),
      u32("ssm.conv_kernel", 4),
      u32("ssm.state_size", 16),
      u32("ssm.group_count", 1),
      u32("ssm.time_step_rank", 2),
      u32("ssm.inner_size", 32),
      arr("rope.dimension_sections", "int32", [2, 1, 1, 0]),
    ],
  },
  { architecture: "mamba2", keys: () => MAMBA, layerTensors: () => ["ssm_conv1d.bias", "ssm_norm.weight"] },
  {
    architecture: "lfm2",
    layers: 3,
    tied: true,
    keys: () => [
      u32("shortconv.l_cache", 3),
      arr("attention.head_count_kv", "uint32", [0, 2, 0]),
      u32("attention.sliding_window", 40),
    ],
  },
];

const folder = new TemporaryFolder();
const pathOf = (architecture: string): string => folder.file(`${architecture}.gguf`);
beforeAll(async () => {
  for (const shape of SHAPES)
    await writeGguf(pathOf(shape.architecture), familyModel(3, { context: CONTEXT, ...shape }));
});
afterAll(() => folder[Symbol.dispose]());

interface Serving {
  readonly kvCacheTokens?: number;
  readonly maxSequences?: number;
  readonly stateCacheSlots?: number;
}

type BackendName = "reference" | "cpu";

async function open(architecture: string, backend: BackendName, serving?: Serving): Promise<Model> {
  const options = { backend, deterministic: backend === "cpu", contextTokens: CONTEXT } as const;
  return await openModel(pathOf(architecture), options, serving === undefined ? {} : { serving });
}

function expectedTokens(model: Model, prompt: Int32Array, count: number): Promise<number[]> {
  return undisturbedTokens(model, prompt, { count, contextTokens: CONTEXT });
}

async function complete(
  { engine }: Model,
  prompt: Int32Array,
  maxTokens: number,
  choices = 1,
  checkpoints: readonly number[] = [],
) {
  const completion = engine.complete({
    prompt,
    maxTokens,
    choices,
    checkpoints,
    sampling: { temperature: 0 },
    ignoreEndOfGeneration: true,
  });
  const tokens: number[][] = Array.from({ length: choices }, () => []);
  for await (const delta of completion) tokens[delta.choice].push(...delta.tokens);
  return { tokens, cachedTokens: completion.cachedTokens };
}

/** Nothing runs: every block and every slot is free or kept in the prefix index. */
function expectNothingHeld({ engine }: Model): void {
  const { blocks, freeBlocks, cachedBlocks, stateSlots, freeStateSlots, checkpoints } = engine.statistics();
  expect(freeBlocks + cachedBlocks).toBe(blocks);
  expect(freeStateSlots + checkpoints).toBe(stateSlots);
}

const CASES = SHAPES.flatMap(({ architecture }) =>
  (["reference", "cpu"] as const).map((backend) => ({ architecture, backend })),
);

describe.each(CASES)("a $architecture on $backend", ({ architecture, backend }) => {
  let model: Model;
  beforeAll(async () => {
    model = await open(architecture, backend);
  });
  afterAll(() => model[Symbol.asyncDispose]());

  it("continues a text where it ended, and goes back to the end of a prompt", async () => {
    const prompt = randomTokens(2, 75);
    const first = await complete(model, prompt, 10);
    expect(first.tokens[0]).toEqual(await expectedTokens(model, prompt, 10));
    expect(first.cachedTokens).toBe(0);
    // The same prompt again: its last token alone is computed.
    expect(await complete(model, prompt, 10)).toEqual({ tokens: first.tokens, cachedTokens: 74 });
    // A next turn: the last token of the answer was sampled, but never computed.
    const next = Int32Array.from([...prompt, ...first.tokens[0], ...randomTokens(3, 40)]);
    const second = await complete(model, next, 10);
    expect(second.cachedTokens).toBe(75 + 9);
    expect(second.tokens[0]).toEqual(await expectedTokens(model, next, 10));
    // Another answer instead: the end of the prompt is shared.
    const edited = Int32Array.from([...prompt, ...randomTokens(4, 30)]);
    const third = await complete(model, edited, 10);
    expect(third.cachedTokens).toBe(75);
    expect(third.tokens[0]).toEqual(await expectedTokens(model, edited, 10));
    expectNothingHeld(model);
  });

  it("keeps the states that a request names, for prompts that differ from there on", async () => {
    const prompt = randomTokens(5, 90);
    await model.engine.complete({ prompt, maxTokens: 1, checkpoints: [37, 50] }).summary;
    const other = Int32Array.from([...prompt.subarray(0, 60), ...randomTokens(6, 20)]);
    const { tokens, cachedTokens } = await complete(model, other, 6);
    expect(cachedTokens).toBe(50);
    expect(tokens[0]).toEqual(await expectedTokens(model, other, 6));
  });

  it("keeps states while it decodes, so that an answer that is cut is not computed again", async () => {
    const prompt = randomTokens(7, 20);
    const { tokens } = await complete(model, prompt, 60);
    const cut = Int32Array.from([...prompt, ...tokens[0].slice(0, 50), 7, 8, 9]);
    const second = await complete(model, cut, 5);
    expect(second.cachedTokens).toBe(20 + 44);
    expect(second.tokens[0]).toEqual(await expectedTokens(model, cut, 5));
  });

  it("keeps the states that the next turn needs while it drafts", async () => {
    await using conversing = await open(architecture, backend);
    const answer = Int32Array.from({ length: 60 }, (_, index) => 65 + (index % 6));
    let history: readonly number[] = [...randomTokens(70, 90)];
    for (let turn = 0; turn < 4; turn++) {
      // The generation prompt is no part of the history.
      const shared = [...history, ...randomTokens(71 + turn, 10)];
      const completion = conversing.engine.complete({
        prompt: Int32Array.from([...shared, 7, 7]),
        maxTokens: answer.length,
        checkpoints: [shared.length],
        scriptedTokens: answer,
        ignoreEndOfGeneration: true,
      });
      const { cachedTokens, acceptedTokens } = await completion.summary;
      expect(acceptedTokens).toBeGreaterThan(20);
      expect(cachedTokens).toBe(turn === 0 ? 0 : history.length - 5);
      history = [...shared, ...randomTokens(80 + turn, 5)];
    }
    expectNothingHeld(conversing);
  });

  it("keeps the states to which the next turn goes back, however many calls of tools come first", async () => {
    await using conversing = await open(architecture, backend);
    const shared = [...randomTokens(90, 70)];
    const ask = async (tokens: readonly number[]) => {
      const { cachedTokens, tokens: answers } = await complete(conversing, Int32Array.from(tokens), 4, 1, [
        shared.length,
      ]);
      return { cachedTokens, answer: answers[0] };
    };
    const text = [...shared, 7, 7];
    for (let call = 0; call < 12; call++) {
      const { cachedTokens, answer } = await ask(text);
      if (call > 0) expect(cachedTokens).toBeGreaterThan(shared.length);
      text.push(...answer, ...randomTokens(91 + call, 10));
    }
    expect(conversing.engine.statistics().evictedCheckpoints).toBeGreaterThan(0);
    expect((await ask([...shared, ...randomTokens(99, 20)])).cachedTokens).toBe(shared.length);
    expectNothingHeld(conversing);
  });

  it("serves several at once, with choices of one prompt", async () => {
    const prompts = [100, 133, 41, 65].map((length, index) => randomTokens(20 + index, length));
    const found = await Promise.all(prompts.map((prompt, index) => complete(model, prompt, 20, 1 + (index % 3))));
    for (const [index, { tokens }] of found.entries()) {
      const expected = await expectedTokens(model, prompts[index], 20);
      for (const choice of tokens) expect(choice).toEqual(expected);
    }
    expectNothingHeld(model);
  });

  it("gives back what a cancelled request held, and continues the text where it was cut off", async () => {
    const prompt = randomTokens(60, 70);
    const expected = await expectedTokens(model, prompt, 60);
    const ended = new AbortController();
    const sampling = { temperature: 0 };
    const request = { prompt, maxTokens: 60, sampling, ignoreEndOfGeneration: true, signal: ended.signal };
    const seen: number[] = [];
    for await (const { tokens } of model.engine.complete(request)) {
      seen.push(...tokens);
      if (seen.length > 40) ended.abort();
    }
    expect(seen).toEqual(expected.slice(0, seen.length));
    const rest = Int32Array.from([...prompt, ...seen]);
    const { tokens, cachedTokens } = await complete(model, rest, 60 - seen.length);
    expect([...seen, ...tokens[0]]).toEqual(expected);
    // What was computed when it was cancelled, or at least the last block of the answer.
    expect(cachedTokens).toBeGreaterThanOrEqual(96);
    expectNothingHeld(model);
  });

  it("counts states in what it needs", () => {
    const { stateBytes, kvCacheBytes } = model.plan.memory();
    expect(stateBytes).toBeGreaterThan(0);
    expect(kvCacheBytes).toBeGreaterThanOrEqual(2 * stateBytes);
  });

  it("gives the same texts where slots and blocks are scarce and sequences are preempted", async () => {
    const serving = { kvCacheTokens: 352, maxSequences: 4, stateCacheSlots: 1 };
    await using scarce = await open(architecture, backend, serving);
    const system = randomTokens(9, 50);
    const prompts = [30, 61, 100, 44, 77, 91].map((length, index) =>
      Int32Array.from([...system, ...randomTokens(40 + index, length)]),
    );
    const texts = async () => await Promise.all(prompts.map((prompt) => complete(scarce, prompt, 70)));
    for (const found of [await texts(), await texts()])
      for (const [index, { tokens }] of found.entries())
        expect(tokens[0]).toEqual(await expectedTokens(scarce, prompts[index], 70));
    expect(scarce.engine.statistics().evictedCheckpoints).toBeGreaterThan(0);
    if (architecture === "qwen35") expect(scarce.engine.statistics().preemptions).toBeGreaterThan(0);
    expectNothingHeld(scarce);
  });
});
