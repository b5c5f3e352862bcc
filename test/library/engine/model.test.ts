// The library as its users meet it: writing, stopping, refusing, disposing.

import { getEventListeners } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ContextError, DisposedError, type GenerationDelta, loadModel, type Model } from "../../../src/index.js";

const MODEL = new URL("../../fixtures/models/fable-3m-qwen2-Q8_0.gguf", import.meta.url).pathname;
const PROMPT = "Once upon a time there was a king";

describe("Model", () => {
  let model: Model;
  beforeAll(async () => {
    // Drafts depend on measured times, and last bits on the batch: what is tested here is the same each time.
    model = await loadModel(MODEL, { draft: "off" });
  });
  afterAll(() => model.dispose());

  it("opens without loading a tensor or decoding the vocabulary", async () => {
    await using fresh = await loadModel(MODEL, { contextTokens: 64 });
    expect(fresh.contextTokens).toBe(64);
    expect(fresh.loadingStats()).toMatchObject({ loadedTensors: 0, loadedBytes: 0 });
  });

  it("streams pieces whose text and tokens belong together, and sums up", async () => {
    const generation = model.generate(PROMPT, { maxTokens: 12, temperature: 0, ignoreEndOfGeneration: true });
    const deltas: GenerationDelta[] = [];
    for await (const delta of generation) deltas.push(delta);
    const tokens = deltas.flatMap((delta) => delta.tokens);
    expect(tokens).toHaveLength(12);
    expect(deltas.map(({ text }) => text).join("")).toBe(model.detokenize(tokens));
    const summary = await generation.result;
    expect(summary).toMatchObject({
      finishReason: "length",
      usage: { completionTokens: 12, promptTokens: model.tokenize(PROMPT).length },
    });
    expect(summary.timings.tokensPerSecond).toBeGreaterThan(0);
  });

  it("writes the same text for the same seed, and another for another", async () => {
    const write = async (seed: number): Promise<string> =>
      (await model.generate(PROMPT, { maxTokens: 16, temperature: 1, seed }).result).text;
    expect(await write(7)).toBe(await write(7));
    expect(await write(7)).not.toBe(await write(8));
  });

  it("reports the seed it drew, with which the text can be had again", async () => {
    const options = { maxTokens: 10, temperature: 1.2 };
    const first = await model.generate(PROMPT, options).result;
    const again = await model.generate(PROMPT, { ...options, seed: first.seed }).result;
    expect(again.text).toBe(first.text);
  });

  it("takes token ids, and gives the same text as for the prompt", async () => {
    const options = { maxTokens: 6, temperature: 0 };
    const fromText = await model.generate(PROMPT, options).result;
    const fromIds = await model.generate([...model.tokenize(PROMPT)], options).result;
    expect(fromIds.text).toBe(fromText.text);
  });

  it("takes the text of special tokens in a prompt for these, unless told that it is text", async () => {
    const prompt = `${PROMPT}<|endoftext|>`;
    const tokens = async (parseSpecial?: boolean): Promise<number> =>
      (await model.generate(prompt, { maxTokens: 1, ...(parseSpecial === undefined ? {} : { parseSpecial }) }).result)
        .usage.promptTokens;
    expect(await tokens()).toBe(model.tokenize(PROMPT).length + 1);
    expect(await tokens(true)).toBe(await tokens());
    expect(await tokens(false)).toBe(model.tokenize(prompt, { parseSpecial: false }).length);
    expect(await tokens(false)).toBeGreaterThan(await tokens());
    expect(() => model.generate(prompt, { parseSpecial: "no" as never })).toThrow(
      expect.objectContaining({ code: "OPTION_VALUE" }),
    );
  });

  it("measures special tokens in a text as text", async () => {
    const text = "<|endoftext|>".repeat(20);
    let windows = 0;
    for await (const progress of model.perplexity(text, { windowTokens: 32 })) ({ windows } = progress);
    expect(windows).toBe(Math.floor(model.tokenize(text, { parseSpecial: false }).length / 32));
  });

  it("ends at a stop string and leaves it out", async () => {
    const options = { maxTokens: 24, temperature: 0 };
    const { text } = await model.generate(PROMPT, options).result;
    const stop = text.slice(8, 12);
    const stopped = await model.generate(PROMPT, { ...options, stop: ["never seen", stop] }).result;
    expect(stopped).toMatchObject({ finishReason: "stop", text: text.slice(0, text.indexOf(stop)) });
  });

  it("ends at an end-of-generation token", async () => {
    const [end] = model.tokenizer.endOfGeneration;
    const options = { maxTokens: 5, temperature: 0, logitBias: new Map([[end, 1000]]) };
    expect(await model.generate(PROMPT, options).result).toMatchObject({
      finishReason: "stop",
      usage: { completionTokens: 0 },
      text: "",
    });
    const ignoring = await model.generate(PROMPT, { ...options, ignoreEndOfGeneration: true }).result;
    expect(ignoring).toMatchObject({ finishReason: "length", usage: { completionTokens: 5 } });
  });

  it("stops when the signal aborts, in the prompt and between tokens", async () => {
    const before = AbortSignal.abort();
    expect(await model.generate(PROMPT, { signal: before }).result).toMatchObject({
      finishReason: "abort",
      usage: { completionTokens: 0 },
    });
    const controller = new AbortController();
    const generation = model.generate(PROMPT, { signal: controller.signal, ignoreEndOfGeneration: true });
    let count = 0;
    for await (const { tokens } of generation) {
      count += tokens.length;
      if (count === 3) controller.abort();
    }
    expect(count).toBe(3);
    expect(await generation.result).toMatchObject({ finishReason: "abort", usage: { completionTokens: 3 } });
  });

  it("sums up a generation that was left early", async () => {
    const generation = model.generate(PROMPT, { maxTokens: 50 });
    for await (const _ of generation) break;
    expect(await generation.result).toMatchObject({ finishReason: "abort", usage: { completionTokens: 1 } });
  });

  it("ends with the context", async () => {
    await using small = await loadModel(MODEL, { contextTokens: 20 });
    const prompt = small.tokenize(PROMPT);
    const result = await small.generate(prompt, { ignoreEndOfGeneration: true }).result;
    expect(result).toMatchObject({ finishReason: "length", usage: { completionTokens: 20 - prompt.length } });
  });

  it("bans repetition with DRY breakers given as text", async () => {
    const options = { maxTokens: 30, temperature: 0, ignoreEndOfGeneration: true };
    const repeated = `${"the cat sat on the mat, ".repeat(4)}the cat`;
    const plain = await model.generate(repeated, options).result;
    const dry = await model.generate(repeated, { ...options, dryMultiplier: 5, dryBreakers: ["\n"] }).result;
    expect(dry.text).not.toBe(plain.text);
  });

  it("returns the logits of every token", async () => {
    const ids = model.tokenize(PROMPT);
    const logits = await model.logits(ids);
    expect(logits).toHaveLength(ids.length * model.vocabularySize);
    expect(await model.logits([])).toHaveLength(0);
  });

  it("rejects a prompt that is longer than the context, with the numbers", async () => {
    await using small = await loadModel(MODEL, { contextTokens: 8 });
    const prompt = new Int32Array(8).fill(5);
    expect(() => small.generate(prompt)).toThrow(ContextError);
    expect(() => small.generate(prompt)).toThrow(/8 tokens and the context holds 8, one of them for the answer/);
    await expect(small.logits(new Int32Array(9))).rejects.toMatchObject({ code: "CONTEXT_OVERFLOW" });
  });

  it.each([
    [{ temprature: 1 }, "OPTION_UNKNOWN", /temperature/],
    [{ maxTokens: 0 }, "OPTION_VALUE", /maxTokens/],
    [{ maxTokens: 1.5 }, "OPTION_VALUE", /maxTokens/],
    [{ stop: [""] }, "OPTION_VALUE", /stop/],
    [{ topP: 2 }, "OPTION_VALUE", /topP/],
    [{ dryBreakers: [3] }, "OPTION_VALUE", /dryBreakers/],
    [{ ignoreEndOfGeneration: "no" }, "OPTION_VALUE", /ignoreEndOfGeneration/],
    [{ signal: 5 }, "OPTION_VALUE", /signal/],
    [{ repeatPenalty: 5e-324 }, "OPTION_VALUE", /repeatPenalty/],
  ])("rejects the options %j", (options, code, message) => {
    const call = (): unknown => model.generate(PROMPT, options as object);
    expect(call).toThrow(expect.objectContaining({ code }));
    expect(call).toThrow(message);
  });

  it("rejects token ids outside the vocabulary, and an empty prompt", async () => {
    expect(() => model.generate([model.vocabularySize])).toThrow(expect.objectContaining({ code: "TOKENIZER_TOKEN" }));
    for (const id of [-1, 2 ** 32 + 5, 5.7, Number.NaN, "x", null]) {
      await expect(model.logits([id as number])).rejects.toMatchObject({ code: "TOKENIZER_TOKEN" });
    }
    expect(() => model.generate(undefined as unknown as string)).toThrow(
      expect.objectContaining({ code: "OPTION_VALUE" }),
    );
    expect(() => model.generate(PROMPT, null as unknown as object)).toThrow(
      expect.objectContaining({ code: "OPTION_VALUE" }),
    );
    expect(() => model.generate([])).toThrow(expect.objectContaining({ code: "OPTION_VALUE" }));
  });

  it("measures perplexity over whole windows of the second half", async () => {
    const text = "The old woman went to the well. ".repeat(12);
    const windowTokens = 32;
    const tokens = model.tokenize(text);
    const windows = Math.floor(tokens.length / windowTokens);
    const seen = [];
    for await (const progress of model.perplexity(text, { windowTokens })) seen.push(progress);
    expect(seen).toHaveLength(windows);
    expect(seen.at(-1)).toMatchObject({ window: windows, windows, scoredTokens: windows * 15 });

    const first = tokens.slice(0, windowTokens);
    if (model.tokenizer.addsBos && model.tokenizer.bosToken !== undefined) first[0] = model.tokenizer.bosToken;
    const logits = await model.logits(first);
    let nll = 0;
    for (let row = 16; row < 31; row++) {
      const values = logits.subarray(row * model.vocabularySize, (row + 1) * model.vocabularySize);
      nll += Math.log(values.reduce((sum, value) => sum + Math.exp(value), 0)) - values[first[row + 1]];
    }
    expect(seen[0].meanNll).toBeCloseTo(nll / 15, 4);
  });

  it("rejects a text that is shorter than one window", async () => {
    await expect(model.perplexity("short", { windowTokens: 64 }).next()).rejects.toMatchObject({
      code: "CONTEXT_UNDERFLOW",
    });
  });

  it("runs several generations at once, each as if it were alone", async () => {
    const options = { temperature: 0, ignoreEndOfGeneration: true };
    const alone = await model.generate(PROMPT, { ...options, maxTokens: 8 }).result;
    const together = await Promise.all(
      [8, 8, 40, 8].map((maxTokens) => model.generate(PROMPT, { ...options, maxTokens }).result),
    );
    expect(together.map(({ text }) => text.slice(0, alone.text.length))).toEqual(Array(4).fill(alone.text));
  });

  it("makes nobody wait for a generation that is paused or forgotten", async () => {
    const paused = model.generate(PROMPT)[Symbol.asyncIterator]();
    const other = model.generate(PROMPT)[Symbol.asyncIterator]();
    await Promise.all([paused.next(), other.next()]);
    expect(await model.logits([1, 2, 3])).toHaveLength(3 * model.vocabularySize);
    await Promise.all([paused.next(), other.next()]);
    expect(
      (await model.generate(PROMPT, { maxTokens: 2, ignoreEndOfGeneration: true }).result).usage.completionTokens,
    ).toBe(2);
    await other.return();
  });

  it("leaves no listeners behind on a signal that outlives many generations", async () => {
    const { signal } = new AbortController();
    for (let count = 0; count < 20; count++) await model.generate(PROMPT, { maxTokens: 1, signal }).result;
    expect(getEventListeners(signal, "abort").length).toBeLessThanOrEqual(1);
  });

  it("gives the result without an iteration, the same again and again, and beside an iteration", async () => {
    const options = { maxTokens: 9, temperature: 0, ignoreEndOfGeneration: true };
    const generation = model.generate(PROMPT, options);
    const first = await generation.result;
    expect(first).toMatchObject({ finishReason: "length", usage: { completionTokens: 9, reasoningTokens: 0 } });
    expect(await generation.result).toBe(first);
    let late = "";
    for await (const { text } of generation) late += text;
    expect(late).toBe(first.text);
    expect(() => generation[Symbol.asyncIterator]()).toThrow(/iterated only once/);

    const iterated = model.generate(PROMPT, options);
    const { result } = iterated;
    let text = "";
    for await (const delta of iterated) text += delta.text;
    expect((await result).text).toBe(text);
    expect(text).toBe(first.text);
  });

  it("starts nothing before the first delta or the result is asked for", async () => {
    await using own = await loadModel(MODEL);
    const generation = own.generate(PROMPT, { maxTokens: 1 });
    const deltas = generation[Symbol.asyncIterator]();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(own.statistics()).toMatchObject({ steps: 0, queued: 0, running: 0 });
    await deltas.next();
    expect(own.statistics().steps).toBe(1);
    await generation.result;
  });

  it("ends a generation that was cancelled before it began, and one that takes too long", async () => {
    const generation = model.generate(PROMPT);
    generation.cancel();
    expect(await generation.result).toMatchObject({ finishReason: "abort", text: "", usage: { completionTokens: 0 } });
    const options = { timeoutMs: 30, ignoreEndOfGeneration: true, temperature: 0 };
    const late = await Promise.all(Array.from({ length: 200 }, () => model.generate(PROMPT, options).result));
    expect(late.some(({ finishReason }) => finishReason === "timeout")).toBe(true);
  });

  it("lets thousands wait in a queue, batches them, and warns of nothing", async () => {
    const warnings: string[] = [];
    const warned = (warning: Error): void => void warnings.push(warning.message);
    process.on("warning", warned);
    await using own = await loadModel(MODEL, { concurrency: 16 });
    const { signal } = new AbortController();
    const options = { maxTokens: 2, temperature: 0, ignoreEndOfGeneration: true, signal };
    const results = await Promise.all(
      Array.from({ length: 2000 }, (_, index) => own.generate([5 + (index % 50), 7, 9], options).result),
    );
    expect(results.every(({ usage }) => usage.completionTokens === 2)).toBe(true);
    expect(own.statistics().steps).toBeLessThan(2000);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", warned);
    expect(warnings).toEqual([]);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("makes nobody wait for a reader that pauses, and keeps no more than its text for it", async () => {
    const paused = model.generate(PROMPT, { maxTokens: 30, temperature: 0, ignoreEndOfGeneration: true });
    const deltas = paused[Symbol.asyncIterator]();
    const first = await deltas.next();
    const { text } = await paused.result;
    const rest = await deltas.next();
    expect(rest.value?.tokens.length).toBeGreaterThan(1);
    expect((first.value?.text ?? "") + (rest.value?.text ?? "")).toBe(text);
    expect(await deltas.next()).toMatchObject({ done: true });
  });

  it("gives the log-probabilities of tokens if they are asked for", async () => {
    const deltas: GenerationDelta[] = [];
    for await (const delta of model.generate(PROMPT, { maxTokens: 3, temperature: 0, topLogprobs: 2 }))
      deltas.push(delta);
    const logprobs = deltas.flatMap((delta) => delta.logprobs ?? []);
    expect(logprobs.map(({ token }) => token)).toEqual(deltas.flatMap(({ tokens }) => tokens));
    for (const { token, top } of logprobs) expect(top[0].token).toBe(token);
  });

  it("takes a prompt's beginning from the cache", async () => {
    const prompt = "The miller had a daughter who could spin straw into gold. ".repeat(6);
    await model.generate(prompt, { maxTokens: 1 }).result;
    const { usage } = await model.generate(`${prompt}The king`, { maxTokens: 1 }).result;
    expect(usage.cachedTokens).toBeGreaterThan(usage.promptTokens / 2);
  });

  it("embeds texts and tokens alike, each with a vector of length 1", async () => {
    const [fox, again, king] = await model.embed(["the fox", model.tokenize("the fox"), "the king sat on his throne"]);
    expect(again).toEqual(fox);
    expect(king).not.toEqual(fox);
    for (const vector of [fox, king]) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
    expect(await model.embed([])).toEqual([]);
    await expect(model.embed("the fox" as never)).rejects.toMatchObject({ code: "OPTION_VALUE" });
    await expect(model.embed(["a"], { signl: 1 } as never)).rejects.toThrow(/did you mean "signal"/);
    await expect(model.embed(["a"], { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
  });

  it.each([
    [[{ role: "user", content: "Hi" }], /expected text or a list of token ids, found a list of objects/],
    [{ prompt: "Hi" }, /found an object/],
    [5, /found 5/],
  ])("says what it found instead of a prompt in %j", (prompt, message) => {
    expect(() => model.generate(prompt as never)).toThrow(message);
  });

  it("settles the result of a generation that was never iterated", async () => {
    const generation = model.generate(PROMPT);
    await generation[Symbol.asyncIterator]().return();
    expect(await generation.result).toMatchObject({ finishReason: "abort", usage: { completionTokens: 0 } });
  });

  it("ends a running generation when it is disposed, and refuses the next", async () => {
    const own = await loadModel(MODEL);
    const running = own.generate(PROMPT, { maxTokens: 40, ignoreEndOfGeneration: true })[Symbol.asyncIterator]();
    await running.next();
    const [pending] = await Promise.allSettled([running.next(), own.dispose(), own.dispose()]);
    // A step that was quicker than the disposal has given its token; the next one is refused.
    const [ended] = pending.status === "rejected" ? [pending] : await Promise.allSettled([running.next()]);
    expect(ended).toMatchObject({ status: "rejected", reason: expect.any(DisposedError) });
    expect(ended).toMatchObject({ reason: { message: expect.stringMatching(/the model\b/) as string } });
    expect(() => own.generate(PROMPT)).toThrow(DisposedError);
    expect(() => own.tokenize("a")).toThrow(DisposedError);
    await own.dispose();
  });
});
