// Models by name against a hub on localhost: the cache's layout, what is fetched, and what is used from the cache.

import { existsSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  loadModel,
  loadTokenizer,
  type ModelPreview,
  previewModel,
  pullModel,
  type PullProgress,
} from "../../src/index.js";
import { HubEnvironment, MODEL_BYTES, paddedModel } from "./hub-environment.js";
import { sha256, TestHub } from "./test-hub.js";

let hub: TestHub;
let environment: HubEnvironment;

beforeEach(async () => {
  hub = await TestHub.start([
    { path: "README.md", bytes: Buffer.from("# Fable"), lfs: false },
    { path: "fable-Q4_K_M.gguf", bytes: MODEL_BYTES },
    { path: "fable-Q8_0.gguf", bytes: paddedModel(MODEL_BYTES.length + 1000) },
    { path: "mmproj-fable-Q4_K_M.gguf", bytes: Buffer.from("no model") },
  ]);
  environment = new HubEnvironment(hub);
});

afterEach(async () => {
  environment[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

it("downloads the default quantisation into Hugging Face's cache layout", async () => {
  const progress: PullProgress[] = [];
  let preview: ModelPreview | undefined;
  const { path, label } = await pullModel(`hf:${hub.repository}`, {
    backend: "reference",
    onPreview: (found) => (preview = found),
    onProgress: (report) => progress.push(report),
  });
  const folder = environment.repositoryFolder(hub);
  expect(path).toBe(join(folder, "snapshots", hub.commit, "fable-Q4_K_M.gguf"));
  expect(label).toBe("fable-Q4_K_M");
  expect(readlinkSync(path)).toBe(`../../blobs/${sha256(MODEL_BYTES)}`);
  expect(readFileSync(join(folder, "refs", "main"), "utf8")).toBe(hub.commit);
  expect(readFileSync(path).equals(MODEL_BYTES)).toBe(true);
  expect(preview).toMatchObject({ architecture: "qwen2", runs: true, sizeBytes: MODEL_BYTES.length });
  expect(progress.at(-1)).toMatchObject({ doneBytes: MODEL_BYTES.length, doneFiles: 1, totalFiles: 1 });
  // The header's bytes are not fetched twice.
  expect(hub.sentBytes).toBe(MODEL_BYTES.length);
});

it("uses a model in the cache without asking the hub", async () => {
  await using first = await loadModel(`hf:${hub.repository}`, { backend: "reference" });
  const requests = hub.requests.length;
  await using second = await loadModel(`hf:${hub.repository}:Q4_K_M`, { backend: "reference", offline: true });
  expect([first.name, second.name]).toEqual(["fable-Q4_K_M", "fable-Q4_K_M"]);
  expect((await second.generate("Once", { maxTokens: 3, temperature: 0 }).result).usage.completionTokens).toBe(3);
  expect((await loadTokenizer(`hf:${hub.repository}`)).vocabularySize).toBeGreaterThan(100);
  expect(hub.requests).toHaveLength(requests);
});

it("pulls nothing twice, and what has changed again", async () => {
  await pullModel(`hf:${hub.repository}:Q8_0`, { backend: "reference" });
  const sent = hub.sentBytes;
  await pullModel(`hf:${hub.repository}:q8_0`, { backend: "reference" });
  expect(hub.sentBytes).toBe(sent);
  const changed = paddedModel(MODEL_BYTES.length + 2000);
  hub.commit = "b".repeat(40);
  hub.files = [{ path: "fable-Q8_0.gguf", bytes: changed }];
  const { path } = await pullModel(`hf:${hub.repository}:Q8_0`, { backend: "reference" });
  expect(sha256(readFileSync(path))).toBe(sha256(changed));
  expect(readFileSync(join(environment.repositoryFolder(hub), "refs", "main"), "utf8")).toBe(hub.commit);
});

describe("a preview", () => {
  it("reads the header alone", async () => {
    hub.files = [{ path: "large.gguf", bytes: paddedModel(MODEL_BYTES.length + 8_000_000) }];
    const preview = await previewModel(`hf:${hub.repository}`, { backend: "reference", contextTokens: 64 });
    expect(preview).toMatchObject({ runs: true, memory: { fits: true, tokens: 64, backend: "reference" } });
    expect(preview.blockTypes.map(({ name }) => name)).toContain("Q4_K");
    expect(hub.sentBytes).toBeLessThan(2_000_000);
  });

  it("rejects a model that does not fit before it is downloaded", async () => {
    const sent = hub.sentBytes;
    const tooLong = pullModel(`hf:${hub.repository}`, { backend: "reference", contextTokens: 2 ** 24 });
    await expect(tooLong).rejects.toMatchObject({ code: "BACKEND_MEMORY" });
    expect(hub.sentBytes - sent).toBeLessThan(1_000_000);
    expect(existsSync(environment.repositoryFolder(hub))).toBe(false);
    const forced = await pullModel(`hf:${hub.repository}`, {
      backend: "reference",
      contextTokens: 2 ** 24,
      ignoreMemoryCheck: true,
    });
    expect(sha256(readFileSync(forced.path))).toBe(sha256(MODEL_BYTES));
  });

  it("rejects a model that does not fit for every one of several pulls at once", async () => {
    const pulls = [1, 2, 3].map(() =>
      pullModel(`hf:${hub.repository}`, { backend: "reference", contextTokens: 2 ** 24 }),
    );
    const outcomes = await Promise.allSettled(pulls);
    expect(outcomes).toMatchObject(outcomes.map(() => ({ status: "rejected", reason: { code: "BACKEND_MEMORY" } })));
    expect(existsSync(environment.repositoryFolder(hub))).toBe(false);
  });

  it("rejects a family that is not supported, and a file that is no GGUF", async () => {
    const foreign = Buffer.from(MODEL_BYTES);
    foreign.write("qwenX", MODEL_BYTES.indexOf("qwen2"), "latin1");
    hub.files = [{ path: "other.gguf", bytes: foreign }];
    await expect(pullModel(`hf:${hub.repository}`)).rejects.toMatchObject({ code: "MODEL_ARCHITECTURE" });
    hub.files = [{ path: "page.gguf", bytes: Buffer.from("<html><body>Sign in</body></html>") }];
    await expect(pullModel(`hf:${hub.repository}`)).rejects.toMatchObject({ code: "GGUF_NOT_GGUF" });
  });
});
