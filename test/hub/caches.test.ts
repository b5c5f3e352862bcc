// Models from other addresses, of Ollama's, split ones; what is listed, removed and found offline.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { i32, u16 } from "../../src/gguf/entry.js";
import { GgufFile } from "../../src/gguf/file.js";
import { partPath } from "../../src/gguf/split.js";
import { encodeGguf, type GgufWriterTensor } from "../../src/gguf/writer.js";
import { FileLock } from "../../src/file-lock.js";
import { listModels, loadModel, loadTokenizer, type PullProgress, pullModel, removeModel } from "../../src/index.js";
import { fixture } from "../cli/command-line.js";
import { HubEnvironment, MODEL_BYTES, paddedModel } from "./hub-environment.js";
import { etagOf, type HubFile, sha256, TestHub } from "./test-hub.js";

const OPTIONS = { backend: "reference" } as const;

let hub: TestHub;
let environment: HubEnvironment;

beforeEach(async () => {
  hub = await TestHub.start([
    { path: "fable-Q4_K_M.gguf", bytes: MODEL_BYTES },
    { path: "fable-Q8_0.gguf", bytes: paddedModel(MODEL_BYTES.length + 1000) },
  ]);
  environment = new HubEnvironment(hub);
});

afterEach(async () => {
  environment[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

describe("a model at an address", () => {
  it("is downloaded once, resumed, and replaced when it changes", async () => {
    const url = `${hub.cdn}/fable-Q4_K_M.gguf`;
    hub.cdnFault = (_, count) => (count === 1 ? { cutAfter: 200_000 } : undefined);
    const { path, label } = await pullModel(url, OPTIONS);
    expect(label).toBe("fable-Q4_K_M");
    expect(path.startsWith(environment.folder.file("cache/rocmforge/models"))).toBe(true);
    expect(sha256(readFileSync(path))).toBe(sha256(MODEL_BYTES));
    const requests = hub.requests.length;
    await using model = await loadModel(url, OPTIONS);
    expect(model.name).toBe("fable-Q4_K_M");
    expect(hub.requests).toHaveLength(requests);
    expect(hub.requests.filter(({ authorization }) => authorization !== undefined)).toEqual([]);
    const changed = paddedModel(MODEL_BYTES.length + 77);
    hub.files = [{ path: "fable-Q4_K_M.gguf", bytes: changed }];
    const again = await pullModel(url, OPTIONS);
    expect(sha256(readFileSync(again.path))).toBe(sha256(changed));
    expect(existsSync(path)).toBe(false);
    expect(await listModels()).toMatchObject([{ name: url, source: "url", sizeBytes: changed.length }]);
    expect((await removeModel(url)).freedBytes).toBe(changed.length);
    expect(await listModels()).toEqual([]);
  });

  it("is listed while its download is unfinished, beside its former version", async () => {
    const url = `${hub.cdn}/fable-Q4_K_M.gguf`;
    await pullModel(url, OPTIONS);
    const changed = paddedModel(MODEL_BYTES.length + 4_000_000);
    hub.files = [{ path: "fable-Q4_K_M.gguf", bytes: changed }];
    hub.sliceMs = 5;
    const controller = new AbortController();
    const onProgress = ({ doneBytes }: PullProgress): void => {
      if (doneBytes > MODEL_BYTES.length) controller.abort();
    };
    await expect(pullModel(url, { ...OPTIONS, signal: controller.signal, onProgress })).rejects.toThrow(/abort/i);
    const models = (await listModels()).map(({ name, unfinished, path }) => [name, unfinished, path === undefined]);
    expect(models).toEqual([
      [url, false, false],
      [url, true, true],
    ]);
    expect((await listModels())[1].sizeBytes).toBeGreaterThan(MODEL_BYTES.length);
    hub.sliceMs = 0;
    expect(sha256(readFileSync((await pullModel(url, OPTIONS)).path))).toBe(sha256(changed));
    expect(await listModels()).toMatchObject([{ name: url, unfinished: false, sizeBytes: changed.length }]);
  });

  it("rejects a server that does not state a size", async () => {
    hub.cdnFault = () => ({ ignoresRange: true, extraBytes: 1 });
    await expect(pullModel(`${hub.cdn}/fable-Q4_K_M.gguf`, OPTIONS)).rejects.toMatchObject({ code: "HUB_RESPONSE" });
  });
});

describe("a split model", () => {
  it("is downloaded with all its parts, several at once, and runs", async () => {
    hub.files = await splitModel(3);
    const { path, label } = await pullModel(`hf:${hub.repository}`, OPTIONS);
    expect(label).toBe("fable-Q4_K_M");
    await using model = await loadModel(`hf:${hub.repository}`, { ...OPTIONS, offline: true });
    expect(model.path).toBe(path);
    expect((await model.generate("Once", { maxTokens: 2 }).result).usage.completionTokens).toBe(2);
    const sizeBytes = hub.files.reduce((total, { bytes }) => total + bytes.length, 0);
    expect(await listModels()).toMatchObject([{ name: `hf:${hub.repository}:Q4_K_M`, sizeBytes }]);
    expect(hub.sentBytes).toBe(sizeBytes);
  });

  it("is found at an address by its first part", async () => {
    hub.files = await splitModel(2);
    const { path } = await pullModel(`${hub.cdn}/${hub.files[0].path}`, OPTIONS);
    await using model = await loadModel(path, OPTIONS);
    expect(model.name).toBe("fable-Q4_K_M");
  });

  it("rejects parts that do not belong together before it downloads them", async () => {
    const [one] = await splitModel(2);
    const [, two] = await splitModel(3);
    hub.files = [one, { path: one.path.replace("00001", "00002"), bytes: two.bytes }];
    await expect(pullModel(`hf:${hub.repository}`, OPTIONS)).rejects.toMatchObject({ code: "GGUF_SPLIT" });
  });
});

describe("offline", () => {
  it("rejects what is not in the cache, and uses the best of what is", async () => {
    process.env["HF_HUB_OFFLINE"] = "1";
    await expect(loadModel(`hf:${hub.repository}`, OPTIONS)).rejects.toMatchObject({ code: "HUB_OFFLINE" });
    await expect(pullModel(`hf:${hub.repository}`, OPTIONS)).rejects.toMatchObject({ code: "HUB_OFFLINE" });
    delete process.env["HF_HUB_OFFLINE"];
    await pullModel(`hf:${hub.repository}:Q8_0`, OPTIONS);
    const requests = hub.requests.length;
    await using model = await loadModel(`hf:${hub.repository}`, { ...OPTIONS, offline: true });
    expect(model.name).toBe("fable-Q8_0");
    await expect(loadTokenizer(`hf:${hub.repository}:Q8_0`)).resolves.toBeDefined();
    expect(hub.requests).toHaveLength(requests);
  });

  it("finds what Python's tools have put into the cache", async () => {
    const folder = environment.repositoryFolder(hub);
    const tag = etagOf(hub.files[0]);
    for (const name of ["blobs", "refs", `snapshots/${hub.commit}`]) mkdirSync(join(folder, name), { recursive: true });
    writeFileSync(join(folder, "blobs", tag), MODEL_BYTES);
    writeFileSync(join(folder, "refs", "main"), hub.commit);
    symlinkSync(`../../blobs/${tag}`, join(folder, "snapshots", hub.commit, "fable-Q4_K_M.gguf"));
    await using model = await loadModel(`hf:${hub.repository}`, { ...OPTIONS, offline: true });
    expect(model.name).toBe("fable-Q4_K_M");
    await pullModel(`hf:${hub.repository}`, OPTIONS);
    expect(hub.sentBytes).toBe(0);
  });
});

describe("listing and removing", () => {
  it("removes a quantisation and keeps what others have put there", async () => {
    await pullModel(`hf:${hub.repository}:Q4_K_M`, OPTIONS);
    await pullModel(`hf:${hub.repository}:Q8_0`, OPTIONS);
    const folder = environment.repositoryFolder(hub);
    writeFileSync(join(folder, "snapshots", hub.commit, "config.json"), "{}");
    writeFileSync(join(folder, "blobs", `${"e".repeat(64)}.incomplete`), "partial");
    expect((await listModels()).map(({ name, unfinished }) => [name, unfinished])).toEqual([
      [`hf:${hub.repository}`, true],
      [`hf:${hub.repository}:Q4_K_M`, false],
      [`hf:${hub.repository}:Q8_0`, false],
    ]);
    const { freedBytes } = await removeModel(`hf:${hub.repository}:Q4_K_M`);
    expect(freedBytes).toBe(MODEL_BYTES.length);
    expect(await listModels()).toHaveLength(2);
    await expect(removeModel(`hf:${hub.repository}:Q4_K_M`)).rejects.toMatchObject({ code: "HUB_NOT_FOUND" });
    await removeModel(`hf:${hub.repository}`);
    expect(await listModels()).toEqual([]);
    expect(existsSync(join(folder, "snapshots", hub.commit, "config.json"))).toBe(true);
    rmSync(join(folder, "snapshots", hub.commit, "config.json"));
    await pullModel(`hf:${hub.repository}`, OPTIONS);
    await removeModel(`hf:${hub.repository}`);
    expect(existsSync(folder)).toBe(false);
  });

  it("rejects removing what is being downloaded", async () => {
    await pullModel(`hf:${hub.repository}`, OPTIONS);
    const partial = join(environment.repositoryFolder(hub), "blobs", `${"e".repeat(64)}.incomplete`);
    writeFileSync(partial, "");
    await using _ = await FileLock.acquire(partial);
    await expect(removeModel(`hf:${hub.repository}`)).rejects.toMatchObject({ code: "HUB_IN_USE" });
  });

  it("rejects paths", async () => {
    await expect(removeModel("model.gguf")).rejects.toMatchObject({ code: "OPTION_VALUE" });
    await expect(pullModel("model.gguf")).rejects.toMatchObject({ code: "OPTION_VALUE" });
  });
});

describe("a model of Ollama's", () => {
  const MODEL_LAYER = "application/vnd.ollama.image.model";

  function ollama(bytes: Buffer, layers: readonly object[] = [], place = "registry.ollama.ai/library/fable/3m"): void {
    const folder = environment.folder.file("ollama");
    const digest = createHash("sha256").update(bytes).digest("hex");
    mkdirSync(join(folder, "blobs"), { recursive: true });
    mkdirSync(dirname(join(folder, "manifests", place)), { recursive: true });
    writeFileSync(join(folder, "blobs", `sha256-${digest}`), bytes);
    const model = { mediaType: MODEL_LAYER, digest: `sha256:${digest}`, size: bytes.length };
    writeFileSync(join(folder, "manifests", place), JSON.stringify({ layers: [model, ...layers] }));
  }

  it("is read where it lies, also offline", async () => {
    ollama(MODEL_BYTES, [{ mediaType: "application/vnd.ollama.image.template", digest: "sha256:x", size: 1 }]);
    await using model = await loadModel("ollama:fable:3m", { ...OPTIONS, offline: true });
    expect(model.name).toBe("fable:3m");
    expect((await model.generate("Once", { maxTokens: 2 }).result).usage.completionTokens).toBe(2);
    expect(await listModels()).toMatchObject([{ name: "ollama:fable:3m", source: "ollama" }]);
    await expect(removeModel("ollama:fable:3m")).rejects.toThrow(/ollama rm fable:3m/);
  });

  it("rejects one that is not there, with where it was looked for", async () => {
    await expect(loadModel("ollama:fable:3m", OPTIONS)).rejects.toMatchObject({ code: "HUB_NOT_FOUND" });
  });

  it.each([
    ["an adapter", MODEL_BYTES, [{ mediaType: "application/vnd.ollama.image.adapter", digest: "sha256:x" }], /LoRA/],
    ["a second model layer", MODEL_BYTES, [{ mediaType: MODEL_LAYER, digest: "sha256:x" }], /2 model layers/],
    ["no GGUF", Buffer.from("{}"), [], /not a plain GGUF/],
    ["another family", withFamily("qwenX"), [], /not a plain GGUF of a supported family: .*qwenX/],
  ])("rejects %s with the reason", async (_, bytes, layers, reason) => {
    ollama(bytes, layers);
    await expect(loadModel("ollama:fable:3m", OPTIONS)).rejects.toMatchObject({ code: "HUB_OLLAMA" });
    await expect(loadModel("ollama:fable:3m", OPTIONS)).rejects.toThrow(reason);
  });

  it.each([
    ["no JSON", "{"],
    ["no layers", "{}"],
    [
      "a digest that leads elsewhere",
      JSON.stringify({ layers: [{ mediaType: MODEL_LAYER, digest: "sha256:../../../etc/passwd" }] }),
    ],
  ])("rejects a manifest with %s", async (_, manifest) => {
    ollama(MODEL_BYTES);
    writeFileSync(join(environment.folder.file("ollama"), "manifests/registry.ollama.ai/library/fable/3m"), manifest);
    await expect(loadModel("ollama:fable:3m", OPTIONS)).rejects.toMatchObject({ code: "HUB_OLLAMA" });
  });
});

/** The smallest model in parts, as llama.cpp's gguf-split writes them. */
async function splitModel(count: number): Promise<readonly HubFile[]> {
  using file = await GgufFile.open(fixture("models/fable-3m-qwen2-Q4_K_M.gguf"), { mapping: "off" });
  const tensors: GgufWriterTensor[] = [];
  for (const tensor of file.tensors.values()) {
    const data = new Uint8Array(tensor.sizeBytes);
    await file.readTensor(tensor, data);
    tensors.push({ name: tensor.name, type: tensor.layout.name, shape: tensor.shape, data });
  }
  const perPart = Math.ceil(tensors.length / count);
  return Array.from({ length: count }, (_, part) => ({
    path: partPath("fable-Q4_K_M", part, count),
    bytes: Buffer.from(
      encodeGguf({
        metadata: [
          ...(part === 0 ? [...file.metadata.entries()] : []),
          u16("split.no", part),
          u16("split.count", count),
          i32("split.tensors.count", tensors.length),
        ],
        tensors: tensors.slice(part * perPart, (part + 1) * perPart),
      }),
    ),
  }));
}

function withFamily(name: string): Buffer {
  const bytes = Buffer.from(MODEL_BYTES);
  bytes.write(name, bytes.indexOf("qwen2"), "latin1");
  return bytes;
}
