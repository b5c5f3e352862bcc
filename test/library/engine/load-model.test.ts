// Opening models and tokenizers: what is refused, with what, and that the process lives on.

import { copyFileSync, truncateSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { BackendMemory } from "../../../src/backends/contract.js";
import { loadAddon } from "../../../src/backends/cpu/addon.js";
import { backendNames } from "../../../src/backends/registry.js";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import { GpuError } from "../../../src/errors.js";
import { arr, u32 } from "../../../src/gguf/entry.js";
import { GgufFile } from "../../../src/gguf/file.js";
import { type GgufWriterTensor, writeGguf } from "../../../src/gguf/writer.js";
import { type BackendName, loadModel, loadTokenizer } from "../../../src/index.js";
import { Model, openPlan } from "../../../src/internals.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";

const MODEL = new URL("../../fixtures/models/fable-3m-qwen2-Q8_0.gguf", import.meta.url).pathname;
const PROMPT = "Once upon a time there was a king";

describe("loadModel", () => {
  let folder: TemporaryFolder;
  beforeAll(() => {
    folder = new TemporaryFolder();
  });
  afterAll(() => folder[Symbol.dispose]());

  it.each([
    [{ backend: "referense" }, "BACKEND_UNKNOWN"],
    [{ backend: 5 }, "OPTION_VALUE"],
    [{ onProgress: 5 }, "OPTION_VALUE"],
    [null, "OPTION_VALUE"],
    [{ contextTokens: 0 }, "OPTION_VALUE"],
    [{ contextTokens: 2 ** 40 }, "OPTION_VALUE"],
    [{ threads: -1 }, "OPTION_VALUE"],
    [{ device: "nowhere" }, "OPTION_VALUE"],
    [{ context: 5 }, "OPTION_UNKNOWN"],
  ])("rejects the options %j with %s", async (options, code) => {
    await expect(loadModel(MODEL, options as object)).rejects.toMatchObject({ code });
  });

  it("has the names of all backends in its type", () => {
    const names: Record<BackendName, true> = { auto: true, cpu: true, cuda: true, hip: true, reference: true };
    expect(Object.keys(names).toSorted()).toEqual(["auto", ...backendNames()].toSorted());
  });

  const addon = loadAddon();
  const why = "reason" in addon ? ` (skipped: ${addon.reason})` : "";
  it.skipIf("reason" in addon).each([{ device: "0" }, { threads: 0 }, { deterministic: "yes" }, { kvCacheType: "q3" }])(
    `rejects the option %j of the backend cpu${why}`,
    async (option) => {
      await expect(loadModel(MODEL, { backend: "cpu", ...option } as object)).rejects.toMatchObject({
        code: "OPTION_VALUE",
      });
    },
  );

  it.each(["hip", "cuda"] as const)("rejects the backend %s where its library is not there", async (backend) => {
    vi.stubEnv(`ROCMFORGE_${backend.toUpperCase()}_LIBRARY`, "/nowhere/library.so");
    try {
      const failure = loadModel(MODEL, { backend });
      await expect(failure).rejects.toBeInstanceOf(GpuError);
      await expect(failure).rejects.toMatchObject({
        code: "GPU_INITIALISATION",
        details: { backend, kind: "initialisation", call: "dlopen" },
      });
    } finally {
      vi.unstubAllEnvs();
    }
  });

  class SmallBackend extends ReferenceBackend {
    readonly #availableBytes: number;

    constructor(availableBytes: number) {
      super();
      this.#availableBytes = availableBytes;
    }

    override memory(): BackendMemory {
      return { totalBytes: this.#availableBytes, availableBytes: this.#availableBytes };
    }
  }

  it("rejects a context whose cache cannot fit, and says how much would", async () => {
    await expect(Model.open(MODEL, new SmallBackend(3e7), { contextTokens: 65_536 })).rejects.toMatchObject({
      code: "BACKEND_MEMORY",
      message: expect.stringMatching(/; a context of \d+ tokens would fit \(`contextTokens: \d+`\)/),
      details: { availableBytes: 3e7, fittingTokens: expect.any(Number) },
    });
  });

  it("opens a model whose weights do not fit, and rejects running it with the numbers", async () => {
    await using model = await Model.open(MODEL, new SmallBackend(8e6), { contextTokens: 64 });
    await expect(model.generate(PROMPT, { maxTokens: 1 }).result).rejects.toMatchObject({
      code: "BACKEND_MEMORY",
      details: { weightBytes: expect.any(Number), availableBytes: 8e6 },
    });
    expect(model.loadingStats().loadedTensors).toBe(0);
  });

  it("opens the file while the backend starts", async () => {
    const starting = pause(50).then(() => new ReferenceBackend());
    await using model = await Model.open(MODEL, starting, { contextTokens: 64 });
    await using plain = await Model.open(MODEL, new ReferenceBackend(), { contextTokens: 64 });
    expect(model.tokenize(PROMPT)).toEqual(plain.tokenize(PROMPT));
    expect(model.loadTimings()).toBeUndefined();
  });

  it("gives the error of a backend that does not start, also where the file is wrong, and ends one whose file is", async () => {
    const failing = (): Promise<never> => pause(20).then(() => Promise.reject(new TypeError("no device")));
    await expect(Model.open(MODEL, failing())).rejects.toThrow("no device");
    await expect(Model.open(folder.file("nowhere.gguf"), failing())).rejects.toThrow("no device");
    // Failed before anybody could have waited for it.
    await expect(Model.open(MODEL, Promise.reject(new TypeError("no device")))).rejects.toThrow("no device");
    const backend = new ReferenceBackend();
    const ended = vi.spyOn(backend, Symbol.asyncDispose);
    await expect(
      Model.open(
        folder.file("nowhere.gguf"),
        pause(20).then(() => backend),
      ),
    ).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
    expect(ended).toHaveBeenCalledTimes(1);
  });

  it("rejects missing, empty and foreign files", async () => {
    const empty = folder.file("empty.gguf");
    const foreign = folder.file("foreign.gguf");
    writeFileSync(empty, "");
    writeFileSync(foreign, "PK\u0003\u0004 and so on, long enough to hold a header");
    await expect(loadModel(folder.file("nowhere.gguf"))).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
    await expect(loadModel(empty)).rejects.toMatchObject({ code: "GGUF_TRUNCATED" });
    await expect(loadModel(foreign)).rejects.toMatchObject({ code: "GGUF_NOT_GGUF" });
    await expect(loadModel(folder.path)).rejects.toMatchObject({ code: "FILE_UNREADABLE" });
  });

  it("survives a file that shrinks after it was opened, and the process goes on", async () => {
    const path = folder.file("shrinks.gguf");
    copyFileSync(MODEL, path);
    await using shrinking = await loadModel(path);
    truncateSync(path, 1_000_000);
    await expect(shrinking.generate(PROMPT).result).rejects.toMatchObject({ code: "GGUF_TRUNCATED" });
    await using other = await loadModel(MODEL);
    expect((await other.generate(PROMPT, { maxTokens: 2 }).result).usage.completionTokens).toBeLessThanOrEqual(2);
  });

  it("rejects a vocabulary without tensors, which loadTokenizer opens", async () => {
    const path = folder.file("vocabulary.gguf");
    using file = await GgufFile.open(MODEL);
    await writeGguf(path, { metadata: [...file.metadata.entries()], tensors: [] });
    await expect(loadModel(path)).rejects.toMatchObject({ code: "MODEL_INVALID" });
    const tokenizer = await loadTokenizer(path);
    await using model = await loadModel(MODEL);
    expect(tokenizer.encode(PROMPT)).toEqual(model.tokenize(PROMPT));
  });

  it("rejects a tokenizer for a file that has none", async () => {
    const path = folder.file("silent.gguf");
    await writeGguf(path, { metadata: [u32("some.key", 1)], tensors: [] });
    await expect(loadTokenizer(path)).rejects.toMatchObject({ code: "GGUF_TOKENIZER" });
  });

  it("continues token ids of a model without a vocabulary, and rejects text for it", async () => {
    const path = folder.file("no-vocabulary.gguf");
    using file = await GgufFile.open(MODEL);
    const tensors = await Promise.all(
      [...file.tensors.values()].map(async (tensor): Promise<GgufWriterTensor> => {
        const data = new Uint8Array(tensor.sizeBytes);
        await file.readTensor(tensor, data);
        return { name: tensor.name, type: tensor.layout.name, shape: tensor.shape, data };
      }),
    );
    const metadata = [...file.metadata.entries()].filter(({ key }) => !key.startsWith("tokenizer."));
    await writeGguf(path, { metadata, tensors });
    await using silent = await loadModel(path);
    await using speaking = await loadModel(MODEL);
    const options = { maxTokens: 6, temperature: 0, ignoreEndOfGeneration: true };
    const ids = speaking.tokenize(PROMPT);
    const [tokens, expected] = [[] as number[], [] as number[]];
    for await (const delta of silent.generate(ids, options)) tokens.push(...delta.tokens);
    for await (const delta of speaking.generate(ids, options)) expected.push(...delta.tokens);
    expect(tokens).toEqual(expected);
    expect(() => silent.generate(PROMPT)).toThrow(expect.objectContaining({ code: "GGUF_TOKENIZER" }));
    expect(() => silent.generate(ids, { stop: "x" })).toThrow(expect.objectContaining({ code: "GGUF_TOKENIZER" }));
  });

  it("rejects a norm whose type is no plain float", async () => {
    const path = folder.file("quantised-norm.gguf");
    using file = await GgufFile.open(MODEL);
    const tensors = [...file.tensors.values()].map(({ name, layout, shape }): GgufWriterTensor => {
      const type = name === "output_norm.weight" ? "Q8_0" : layout.name;
      return { name, type, shape, data: "sparse" };
    });
    await writeGguf(path, { metadata: [...file.metadata.entries()], tensors });
    await expect(loadModel(path)).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringMatching(/output_norm\.weight: expected a vector of F32, F16 or BF16, found Q8_0/),
    });
  });

  it("rejects a vocabulary of another size than the embedding, before a plan is shown", async () => {
    const path = folder.file("short-vocabulary.gguf");
    using file = await GgufFile.open(MODEL);
    const metadata = [...file.metadata.entries()].filter(({ key }) => !/\.(tokens|token_type|scores)$/.test(key));
    const tensors = [...file.tensors.values()].map(({ name, layout, shape }): GgufWriterTensor => ({
      name,
      type: layout.name,
      shape,
      data: "sparse",
    }));
    await writeGguf(path, {
      metadata: [...metadata, arr("tokenizer.ggml.tokens", "string", ["a", "b", "c"])],
      tensors,
    });
    await expect(openPlan(path, new ReferenceBackend())).rejects.toMatchObject({ code: "GGUF_TOKENIZER" });
  });

  it("lists every missing tensor and wrong shape at once", async () => {
    const path = folder.file("damaged.gguf");
    using file = await GgufFile.open(MODEL);
    const tensors: GgufWriterTensor[] = [];
    for (const tensor of file.tensors.values()) {
      if (tensor.name === "blk.0.attn_q.weight" || tensor.name === "blk.1.ffn_norm.weight") continue;
      const shape = tensor.name === "output_norm.weight" ? [tensor.shape[0] / 2] : tensor.shape;
      tensors.push({ name: tensor.name, type: tensor.layout.name, shape, data: "sparse" });
    }
    await writeGguf(path, { metadata: [...file.metadata.entries()], tensors });
    await expect(loadModel(path)).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringMatching(
        /damaged\.gguf: .*: expected .*; the first of 3 problems with the model's tensors$/,
      ),
      more: [expect.any(String), expect.any(String)],
      details: { problems: expect.arrayContaining([expect.objectContaining({ subject: "blk.1.ffn_norm.weight" })]) },
    });
  });
});
