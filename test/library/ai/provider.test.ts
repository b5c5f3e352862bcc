// The provider with the embedded model, called as the AI SDK calls it, without the SDK: streams and how they end, embeddings,
// and what is loaded and disposed. sdk.full.test.ts has the SDK's own functions.

import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test, vi } from "vitest";
import { createRocmForge, type RocmForgeProvider } from "../../../src/ai/index.js";
import { embeddedModelPath, loadModel, type Model } from "../../../src/index.js";

let model: Model;
let provider: RocmForgeProvider<"story" | "file">;

beforeAll(async () => {
  model = await loadModel(embeddedModelPath(), { backend: "cpu" });
  provider = createRocmForge({
    models: { story: model, file: { path: embeddedModelPath(), contextTokens: 512 } },
    model: { backend: "cpu" },
  });
});

afterAll(async () => {
  await provider.dispose();
  await model.dispose();
});

function call(text: string, settings: Partial<LanguageModelV4CallOptions> = {}): LanguageModelV4CallOptions {
  return { prompt: [{ role: "user", content: [{ type: "text", text }] }], ...settings };
}

/** Goes on until it is ended. */
const ENDLESS = { maxOutputTokens: 3000, providerOptions: { rocmforge: { ignoreEndOfGeneration: true } } };

async function read(stream: ReadableStream<LanguageModelV4StreamPart>): Promise<LanguageModelV4StreamPart[]> {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const textOf = (parts: readonly LanguageModelV4StreamPart[]): string =>
  parts.map((part) => (part.type === "text-delta" ? part.delta : "")).join("");

describe("a language model", () => {
  test("streams what it generates as a whole, with the same counts", async () => {
    const options = call("Who is the hero?", { seed: 3, maxOutputTokens: 20, temperature: 0 });
    const whole = await provider("story").doGenerate(options);
    const { stream } = await provider.languageModel("story").doStream(options);
    const parts = await read(stream);
    expect(whole.content).toEqual([{ type: "text", text: textOf(parts) }]);
    expect(parts.slice(0, 3)).toMatchObject([
      { type: "stream-start", warnings: [] },
      { type: "response-metadata", modelId: "story", timestamp: expect.any(Date) as Date },
      { type: "text-start", id: "text-0" },
    ]);
    const finish = parts.at(-1);
    expect(finish).toMatchObject({
      type: "finish",
      finishReason: { unified: "length", raw: "length" },
      usage: { outputTokens: { total: 20, text: 20, reasoning: 0 } },
      providerMetadata: { rocmforge: { seed: 3 } },
    });
    expect(whole.finishReason).toEqual({ unified: "length", raw: "length" });
    const { total, noCache, cacheRead, cacheWrite } = whole.usage.inputTokens;
    expect(total).toBe((noCache ?? 0) + (cacheRead ?? 0));
    expect(cacheWrite).toBeUndefined();
    expect(finish?.type === "finish" && finish.usage.inputTokens.total).toBe(total);
  });

  test("streams the input of a demanded call", async () => {
    const { stream } = await provider("story").doStream(
      call("What is the weather?", {
        seed: 2,
        tools: [
          {
            type: "function",
            name: "weather",
            inputSchema: {
              type: "object",
              properties: { town: { enum: ["Oslo", "Rome"] } },
              required: ["town"],
              additionalProperties: false,
            },
          },
        ],
        toolChoice: { type: "tool", toolName: "weather" },
      }),
    );
    const parts = await read(stream);
    const types = parts.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1]);
    expect(types).toEqual([
      "stream-start",
      "response-metadata",
      "tool-input-start",
      "tool-input-delta",
      "tool-input-end",
      "tool-call",
      "finish",
    ]);
    const input = parts.map((part) => (part.type === "tool-input-delta" ? part.delta : "")).join("");
    const toolCall = parts.find((part) => part.type === "tool-call");
    expect(toolCall).toMatchObject({ toolName: "weather", input });
    expect(["Oslo", "Rome"]).toContain((JSON.parse(input) as { town: string }).town);
    expect(parts.at(-1)).toMatchObject({ finishReason: { unified: "tool-calls" } });
  });

  test("computes nothing before its stream is read, and ends when the stream is left", async () => {
    const generatedBefore = model.statistics().generatedTokens;
    const { stream: unread } = await provider("story").doStream(call("Tell a story.", ENDLESS));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(model.statistics()).toMatchObject({ running: 0, queued: 0, generatedTokens: generatedBefore });
    await unread.cancel();
    const { stream } = await provider("story").doStream(call("Tell a story.", ENDLESS));
    for await (const { type } of stream) if (type === "text-delta") break;
    expect(model.statistics().running).toBe(0);
  });

  test("leaves the queue when its stream is left before the first token", async () => {
    await using busy = await loadModel(embeddedModelPath(), { backend: "cpu", concurrency: 1 });
    const language = createRocmForge({ models: { busy } })("busy");
    const running = (await language.doStream(call("Tell a story.", ENDLESS))).stream.getReader();
    while ((await running.read()).value?.type !== "text-delta");
    const waiting = (await language.doStream(call("Who?"))).stream.getReader();
    await waiting.read();
    await waiting.read();
    const first = waiting.read();
    await vi.waitFor(() => expect(busy.statistics()).toMatchObject({ running: 1, queued: 1 }), {
      interval: 1,
      timeout: 60_000,
    });
    await waiting.cancel();
    expect((await first).done).toBe(true);
    expect(busy.statistics().queued).toBe(0);
    await running.cancel();
    expect(busy.statistics().running).toBe(0);
  });

  test("fails with the reason of an abort: before, while it is read, and as a whole", async () => {
    const reason = new Error("enough");
    const aborted = AbortSignal.abort(reason);
    await expect(provider("story").doGenerate(call("Who?", { abortSignal: aborted }))).rejects.toBe(reason);
    const ending = new AbortController();
    const { stream } = await provider("story").doStream(call("Who?", { ...ENDLESS, abortSignal: ending.signal }));
    const reading = (async () => {
      for await (const { type } of stream) if (type === "text-delta") ending.abort(reason);
    })();
    await expect(reading).rejects.toBe(reason);
    expect(model.statistics().running).toBe(0);
  });

  test("a time limit is a finish reason of its own", async () => {
    const providerOptions = { rocmforge: { ignoreEndOfGeneration: true, timeoutMs: 20 } };
    const { finishReason } = await provider("story").doGenerate(
      call("Who?", { providerOptions, maxOutputTokens: 3500 }),
    );
    expect(finishReason).toEqual({ unified: "other", raw: "timeout" });
  });

  test("a failure after the start is a part of the stream", async () => {
    const { stream } = await provider("story").doStream(
      call("Who?", { providerOptions: { rocmforge: { regex: "(" } } }),
    );
    const parts = await read(stream);
    expect(parts.slice(2)).toMatchObject([
      { type: "error", error: { code: "GRAMMAR_INVALID" } },
      { type: "finish", finishReason: { unified: "error", raw: "GRAMMAR_INVALID" } },
    ]);
  });

  test("rejects settings that cannot be at once", async () => {
    await expect(provider("story").doGenerate(call("Who?", { topP: 2 }))).rejects.toMatchObject({
      code: "OPTION_VALUE",
    });
    await expect(provider("story").doStream(call("Who?", { stopSequences: [""] }))).rejects.toThrow(/\[chat\] stop/);
    await expect(provider("story").doGenerate(call("Who?", { maxOutputTokens: 0 }))).rejects.toThrow(/maxTokens/);
  });
});

describe("an embedding model", () => {
  test("gives the vectors of the model, and counts their tokens", async () => {
    const values = ["the fox <|im_start|>", "the king"];
    const embedding = provider.embeddingModel("story");
    const { embeddings, usage, warnings } = await embedding.doEmbed({ values, dimensions: 256 });
    expect(embeddings).toEqual((await model.embed(values)).map((vector) => Array.from(vector)));
    const counts = values.map((value) => model.tokenize(value, { parseSpecial: false }).length);
    expect(usage).toEqual({ tokens: counts[0] + counts[1] });
    expect(warnings).toEqual([]);
    expect(embedding).toMatchObject({ maxEmbeddingsPerCall: 2048, supportsParallelCalls: true });
  });

  test("warns about dimensions that it does not have, and is aborted", async () => {
    const embedding = provider.embeddingModel("story");
    const { warnings } = await embedding.doEmbed({ values: ["fox"], dimensions: 64 });
    expect(warnings).toEqual([
      { type: "unsupported", feature: "dimensions", details: "vectors of this model have 256" },
    ]);
    const ending = new AbortController();
    const values = Array.from({ length: 200 }, (_, index) => `The fox crossed the river ${index} times.`);
    const embedded = embedding.doEmbed({ values, abortSignal: ending.signal });
    ending.abort(new Error("enough"));
    await expect(embedded).rejects.toThrow("enough");
  });
});

describe("the provider", () => {
  test("loads a file at first use, and disposes it with itself", async () => {
    const own = createRocmForge({
      models: { file: embeddedModelPath(), open: model },
      model: { backend: "cpu", contextTokens: 256 },
    });
    const language = own("file");
    const long = call("Once upon a time. ".repeat(80), { maxOutputTokens: 1 });
    await expect(language.doGenerate(long)).rejects.toMatchObject({ code: "CONTEXT_OVERFLOW" });
    const [first, second] = await Promise.all(
      [1, 1].map((seed) => language.doGenerate(call("Who?", { seed, maxOutputTokens: 4 }))),
    );
    expect([first, second].map(({ usage }) => usage.outputTokens.total)).toEqual([4, 4]);
    await own.dispose();
    await own[Symbol.asyncDispose]();
    await expect(language.doGenerate(call("Who?"))).rejects.toMatchObject({ code: "DISPOSED" });
    expect(() => own("file")).toThrow(/the provider was used after it was disposed/);
    expect(await model.embed(["fox"])).toHaveLength(1);
  });

  test("options of a file take precedence", async () => {
    const long = call("Once upon a time. ".repeat(120), { maxOutputTokens: 1 });
    await expect(provider("file").doGenerate(long)).rejects.toThrow(/at most 511 tokens/);
  });

  test("completes the names of its models, and takes others to refuse them", () => {
    expectTypeOf(provider.languageModel).parameter(0).extract<"story">().toEqualTypeOf<"story">();
    const expected = { name: "AI_NoSuchModelError", code: "SERVING_MODEL_UNKNOWN", modelId: "tale" };
    const refusal = (modelType: string) => expect.objectContaining({ ...expected, modelType }) as Error;
    expect(() => provider("tale")).toThrow(refusal("languageModel"));
    expect(() => provider.embeddingModel("tale")).toThrow(refusal("embeddingModel"));
    expect(() => provider.imageModel("tale")).toThrow(refusal("imageModel"));
  });

  test("rejects settings that cannot be", () => {
    expect(() => createRocmForge({ models: {} })).toThrow(/\[createRocmForge\] models: expected models by name/);
    expect(() => createRocmForge({ model: { contextTokens: 0 }, models: { a: "a.gguf" } })).toThrow(
      /createRocmForge\.model/,
    );
    expect(() => createRocmForge({ models: { a: 5 as never } })).toThrow(/createRocmForge\.models\.a/);
    expect(() => createRocmForge({ model: {}, modles: {} } as never)).toThrow(/did you mean "models"/);
  });
});
