// The CPU backend and the files under it: mapped or not, within a budget, shrunk while in use, and in worker threads.

import { copyFileSync, statSync, truncateSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { afterAll, expect, it } from "vitest";
import { Model } from "../../src/model/model.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { BEST_SUBJECT, describeCpu } from "./subjects.js";

const MODEL = new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;
const LIBRARY = new URL("../../dist/index.js", import.meta.url).href;
const TOKENS = Int32Array.of(5, 17, 300, 2, 9, 41, 77, 1, 8, 12);

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

async function logitsOf(
  options: { readonly mapping?: "off"; readonly cacheBudgetBytes?: number } = {},
): Promise<Float32Array> {
  await using loader = await GgufLoader.open(MODEL, options);
  await using backend = BEST_SUBJECT.create();
  const plan = ExecutionPlan.fromLoader(loader, backend);
  using cache = plan.createKvCache();
  return await plan.decode(TOKENS, 0, cache);
}

describeCpu("files that are not mapped", () => {
  it("give the same results from memory of their own", async () => {
    expect(await logitsOf({ mapping: "off" })).toEqual(await logitsOf());
  });

  it("are counted against the budget, which mapped ones are not", async () => {
    await expect(logitsOf({ mapping: "off", cacheBudgetBytes: 1e6 })).rejects.toMatchObject({ code: "TENSOR_BUDGET" });
    expect(await logitsOf({ cacheBudgetBytes: 0 })).toHaveLength(4096);
  });
});

describeCpu("a file that shrinks while it is in use", () => {
  it("ends its own steps with GGUF_TRUNCATED, and nobody else's", async () => {
    const path = folder.file("shrinking.gguf");
    copyFileSync(MODEL, path);
    await using model = await Model.open(path, BEST_SUBJECT.create());
    await using twin = await Model.open(path, BEST_SUBJECT.create());
    await using other = await Model.open(MODEL, BEST_SUBJECT.create());
    const expected = await other.logits(TOKENS);
    expect(await model.logits(TOKENS)).toEqual(expected);
    truncateSync(path, statSync(path).size / 2);
    await expect(model.logits(TOKENS)).rejects.toMatchObject({ code: "GGUF_TRUNCATED" });
    await expect(model.logits(TOKENS)).rejects.toMatchObject({ code: "GGUF_TRUNCATED" });
    await expect(twin.logits(TOKENS)).rejects.toMatchObject({ code: "GGUF_TRUNCATED" });
    expect(await other.logits(TOKENS)).toEqual(expected);
  });
});

describeCpu("worker threads", () => {
  it("compute beside this one, and may end in the middle of a step", async () => {
    await using model = await Model.open(MODEL, BEST_SUBJECT.create({ deterministic: true }));
    const expected = await model.logits(TOKENS);
    const source = `
      import { parentPort } from "node:worker_threads";
      const { loadModel } = await import(${JSON.stringify(LIBRARY)});
      const model = await loadModel(${JSON.stringify(MODEL)}, { backend: "cpu", deterministic: true });
      parentPort.postMessage(await model.logits(${JSON.stringify([...TOKENS])}));
      for (;;) await model.logits(Array.from({ length: 400 }, (_, index) => index));
    `;
    const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`));
    try {
      const found = await new Promise((resolve, reject) => {
        worker.once("message", resolve);
        worker.once("error", reject);
      });
      expect(found).toEqual(expected);
    } finally {
      await worker.terminate();
    }
    expect(await model.logits(TOKENS)).toEqual(expected);
  });
});
