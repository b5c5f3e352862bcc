// A model's engine on the CPU: what the simulated device cannot show.

import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { computeFirstToken, type Engine } from "../../../src/engine/engine.js";
import { loadModel, type Model } from "../../../src/index.js";
import { openModel } from "../../../src/model/load-model.js";

const PATH = new URL("../../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;
const PROMPT = "Once upon a time there was a king";

describe("Engine", () => {
  let model: Model;
  let engine: Engine;
  beforeAll(async () => {
    model = await openModel(PATH, { backend: "cpu", deterministic: true }, { name: "fable" });
    engine = model.engine;
  });
  afterAll(() => model[Symbol.asyncDispose]());

  it("tells what it is", () => {
    expect(engine).toMatchObject({
      name: "fable",
      contextTokens: model.contextTokens,
      vocabularySize: model.vocabularySize,
      chatTemplates: model.chatTemplates,
    });
    expect(engine.statistics()).toMatchObject({ running: 0, queued: 0, steps: expect.any(Number) });
  });

  it("gives the log-probabilities that follow from the logits", async () => {
    const prompt = model.tokenize(PROMPT);
    const completion = engine.complete({
      prompt,
      maxTokens: 3,
      topLogprobs: 5,
      sampling: { temperature: 0 },
      ignoreEndOfGeneration: true,
    });
    const deltas = [];
    for await (const delta of completion) deltas.push(delta);
    const tokens = deltas.flatMap((delta) => [...delta.tokens]);
    const logits = await model.logits([...prompt, ...tokens]);
    for (const [index, { token, logprob, top }] of deltas.flatMap(({ logprobs }) => logprobs).entries()) {
      const row = logits.subarray(
        (prompt.length - 1 + index) * model.vocabularySize,
        (prompt.length + index) * model.vocabularySize,
      );
      const logSum = Math.log(row.reduce((sum, value) => sum + Math.exp(value), 0));
      expect(token).toBe(tokens[index]);
      expect(logprob).toBeCloseTo(row[token] - logSum, 4);
      const best = [...row.keys()].sort((left, right) => row[right] - row[left]).slice(0, 5);
      expect(top.map((entry) => entry.token)).toEqual(best);
    }
  });

  it("embeds a text as the mean of its states, the same in a batch, in chunks and alone", async () => {
    const long = model.tokenize(`${PROMPT} `.repeat(12));
    expect(long.length).toBeGreaterThan(64);
    const alone = await engine.embed(long);
    const [again, short] = await Promise.all([engine.embed(long), engine.embed(model.tokenize(PROMPT))]);
    expect(again).toEqual(alone);
    expect(short).not.toEqual(alone);
    for (const vector of [alone, short]) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
    await expect(engine.embed(new Int32Array(engine.contextTokens + 1))).rejects.toMatchObject({
      code: "CONTEXT_OVERFLOW",
    });
  });

  it("reads a prompt that it has read before from the cache", async () => {
    const prompt = model.tokenize("The miller had a daughter who could spin straw into gold. ".repeat(8));
    const request = { prompt, maxTokens: 2, sampling: { temperature: 0 } };
    expect((await engine.complete(request).summary).cachedTokens).toBe(0);
    const { blockTokens } = model.plan.config;
    expect((await engine.complete(request).summary).cachedTokens).toBe(
      Math.floor((prompt.length - 1) / blockTokens) * blockTokens,
    );
  });

  it("forks choices in the middle of a block, and each goes its own way", async () => {
    const request = { prompt: model.tokenize(PROMPT), maxTokens: 20, ignoreEndOfGeneration: true };
    const read = async (choices: number, seed: number): Promise<string[]> => {
      const texts = Array<string>(choices).fill("");
      for await (const { choice, text } of engine.complete({
        ...request,
        choices,
        sampling: { seed, temperature: 1.5 },
      }))
        texts[choice] += text;
      return texts;
    };
    const together = await read(4, 21);
    expect(new Set(together).size).toBe(4);
    for (const [index, text] of together.entries()) expect(await read(1, 21 + index)).toEqual([text]);
  });

  it("frees the blocks of cancelled requests, in every phase", async () => {
    const controllers = Array.from({ length: 80 }, () => new AbortController());
    const completions = controllers.map(({ signal }, index) =>
      engine.complete({
        prompt: model.tokenize(`${index} ${PROMPT} `.repeat(20)),
        ignoreEndOfGeneration: true,
        signal,
      }),
    );
    await pause(30);
    expect(engine.statistics().running).toBeGreaterThan(0);
    for (const controller of controllers) controller.abort();
    const reasons = await Promise.all(completions.map(async ({ summary }) => (await summary).choices[0].reason));
    expect(new Set(reasons)).toEqual(new Set(["abort"]));
    const { blocks, freeBlocks, cachedBlocks, running, queued } = engine.statistics();
    expect({ running, queued, held: blocks - freeBlocks - cachedBlocks }).toEqual({ running: 0, queued: 0, held: 0 });
  });

  it("prints the control tokens that it is told to, and no others", async () => {
    const { eosToken } = engine.tokenizer;
    if (eosToken === undefined) throw new Error("the embedded model has an end token");
    const request = {
      prompt: model.tokenize(PROMPT),
      maxTokens: 2,
      ignoreEndOfGeneration: true,
      sampling: { temperature: 0, logitBias: new Map([[eosToken, 60]]) },
    };
    const read = async (printedTokens?: ReadonlySet<number>): Promise<string> => {
      let text = "";
      for await (const delta of engine.complete({
        ...request,
        ...(printedTokens === undefined ? {} : { printedTokens }),
      }))
        text += delta.text;
      return text;
    };
    expect(await read()).toBe("");
    expect(await read(new Set([eosToken]))).toBe(engine.tokenizer.tokenText(eosToken).repeat(2));
    expect(await read(new Set([eosToken + 1]))).toBe("");
  });

  it("refuses what is wrong with a request when it is read, and goes on", async () => {
    const bad = engine.complete({ prompt: model.tokenize(PROMPT), sampling: { topP: 7 } });
    await expect(bad.summary).rejects.toMatchObject({ code: "OPTION_VALUE" });
    await expect(bad[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "OPTION_VALUE" });
    expect(
      (await engine.complete({ prompt: model.tokenize(PROMPT), maxTokens: 2, ignoreEndOfGeneration: true }).summary)
        .generatedTokens,
    ).toBe(2);
  });

  it("ends what runs when it is disposed, and refuses what comes after", async () => {
    const owner = await loadModel(PATH, { backend: "cpu", concurrency: 2 });
    const own = owner.engine;
    const prompt = own.tokenizer.encode(PROMPT);
    const completions = Array.from({ length: 4 }, () => own.complete({ prompt, ignoreEndOfGeneration: true }));
    await pause(20);
    await owner[Symbol.asyncDispose]();
    for (const { summary } of completions) await expect(summary).rejects.toMatchObject({ code: "DISPOSED" });
    await expect(own.complete({ prompt }).summary).rejects.toMatchObject({ code: "DISPOSED" });
    await expect(own.embed(prompt)).rejects.toMatchObject({ code: "DISPOSED" });
  });

  it("has the context that its cache can hold, for those who ask and for those who are refused", async () => {
    await using owner = await openModel(PATH, { backend: "cpu" }, { serving: { kvCacheTokens: 64 } });
    const own = owner.engine;
    expect(own.contextTokens).toBe(64);
    const { choices } = await own.complete({
      prompt: new Int32Array(60).fill(5),
      maxTokens: 50,
      ignoreEndOfGeneration: true,
    }).summary;
    expect(choices).toEqual([{ reason: "length", generatedTokens: 4 }]);
    await expect(own.complete({ prompt: new Int32Array(64) }).summary).rejects.toMatchObject({
      code: "CONTEXT_OVERFLOW",
      details: { contextTokens: 64 },
    });
    await expect(own.embed(new Int32Array(65))).rejects.toMatchObject({ code: "CONTEXT_OVERFLOW" });
  });

  it("is warmed up by one token, and goes where that fails", async () => {
    const own = await loadModel(PATH, { backend: "cpu" });
    expect(await computeFirstToken(own)).toBe(own);
    expect(own.statistics()).toMatchObject({ running: 0, promptTokens: 1, steps: 1 });
    await own[Symbol.asyncDispose]();
    await expect(computeFirstToken(own)).rejects.toMatchObject({ code: "DISPOSED" });
  });

  it("rejects options that it cannot serve with before anything is opened", async () => {
    const serving = { maxSequences: 0 };
    await expect(openModel(PATH, { backend: "cpu" }, { serving })).rejects.toMatchObject({ code: "OPTION_VALUE" });
  });
});
