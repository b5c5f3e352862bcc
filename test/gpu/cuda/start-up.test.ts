// The way up of an NVIDIA GPU on the C double of its driver: what is there before its context is, and contexts that fail.

import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { bindCalls, openLibrary } from "../../../src/backends/gpu/drivers/shared/ffi.js";
import { createBackend, startBackend } from "../../../src/backends/registry.js";
import { loadModel } from "../../../src/index.js";
import { GgufLoader } from "../../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../../src/plan/execution-plan.js";
import { writeModel } from "../random-models.js";
import { describeEmulator } from "../emulator/build.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { selectDouble } from "./double.js";

interface Counts {
  readonly retained: () => number;
  readonly retainCalls: () => number;
}

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
beforeAll(async () => await writeModel(path));
afterAll(() => folder[Symbol.dispose]());
afterEach(() => void vi.unstubAllEnvs());

function countsOf(library: string): Counts {
  const opened = openLibrary([library]);
  if ("missing" in opened) throw new TypeError(opened.reason);
  const bound = bindCalls<Counts>(opened, {
    retained: "int cuDoubleRetained()",
    retainCalls: "int cuDoubleRetainCalls()",
  });
  if ("lacking" in bound) throw new TypeError(bound.lacking.join(", "));
  return bound.calls;
}

describeEmulator("a GPU on its way up", () => {
  it("is planned for before its context is made", async () => {
    const { library } = selectDouble("slow", { contextMs: 1500 });
    const { retained } = countsOf(library);
    const backend = await startBackend("cuda");
    await using _ = backend;
    await using loader = await GgufLoader.open(path);
    const plan = ExecutionPlan.fromLoader(loader, backend);
    expect(plan.backend.description.isa).toBe("sm_90");
    expect(retained()).toBe(0);
    await backend.ready?.();
    expect(retained()).toBe(1);
    expect(backend.memory().availableBytes).toBeGreaterThan(0);
  });

  it("is there when a caller of the library has it", async () => {
    const { library } = selectDouble("slow", { contextMs: 1500 });
    const { retained } = countsOf(library);
    const before = retained();
    await using backend = await createBackend("cuda");
    expect(retained()).toBe(before + 1);
    expect(backend.description.name).toBe("cuda");
  });

  it("is refused where its context fails, which is tried once", async () => {
    const { library } = selectDouble("no-context", { contextFailure: 2 });
    const { retained, retainCalls } = countsOf(library);
    const refusal = { code: "GPU_OUT_OF_MEMORY", details: { call: "cuDevicePrimaryCtxRetain", number: 2 } };
    await expect(createBackend("cuda")).rejects.toMatchObject(refusal);
    expect(retainCalls()).toBe(1);
    await expect(loadModel(path, { backend: "cuda", firstPrompt: "Once" })).rejects.toMatchObject(refusal);
    expect([retainCalls(), retained()]).toEqual([2, 0]);
  });
});
