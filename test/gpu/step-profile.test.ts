// Times of the kernels of a step on the emulated device: every launch of the step is counted once, with the tensors that it
// reads, whatever the step, and the program computes afterwards what it computed before.

import { afterAll, expect, it } from "vitest";
import type { KernelTime } from "../../src/backends/tuning.js";
import { FULL_RUN } from "../support/full-run.js";
import { writeHybridModel } from "../support/hybrid-model.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeEmulator } from "./emulator/build.js";
import { openEmulated } from "./emulated-hip.js";
import { decodeStep, openModel, writeModel } from "./random-models.js";

const LAYERS = 2;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

function launchesOf(times: readonly KernelTime[], weight: string): number {
  return times.reduce((sum, { weights, launches }) => sum + (weights.includes(weight) ? launches : 0), 0);
}

describeEmulator("the profile of a step", () => {
  it.each([
    { tokens: 3, isPrompt: false, depth: 40 },
    ...(FULL_RUN
      ? [
          { tokens: 1, isPrompt: false, depth: 0 },
          { tokens: 1, isPrompt: false, depth: 200 },
          { tokens: 20, isPrompt: true, depth: 0 },
        ]
      : []),
  ])("has every kernel once: %o", async (options) => {
    const path = folder.file("model.gguf");
    await writeModel(path, { layers: LAYERS, types: ["Q8_0"], width: 64, heads: 2, kvHeads: 1, feedForward: 128 });
    await using backend = openEmulated(32);
    await using model = await openModel(path, backend);
    const steps = [decodeStep(1, 0), decodeStep(1, 1)];
    const before = await model.run(steps);
    const times = await model.plan.profileKernels(options);
    expect(launchesOf(times, "ffn_down")).toBe(LAYERS);
    expect(launchesOf(times, "attn_output")).toBe(LAYERS);
    expect(launchesOf(times, "attn_q")).toBe(LAYERS);
    expect(times.length).toBeGreaterThan(5);
    for (const { microseconds, launches, kernel, label, weights, types, weightBytes } of times) {
      expect(microseconds).toBeGreaterThan(0);
      expect(launches).toBeGreaterThan(0);
      expect(kernel).toMatch(/^[a-z0-9-]+\/[a-z0-9-]+$/);
      expect(label).not.toBe("");
      if (kernel.startsWith("matmul/")) expect(weightBytes).toBeGreaterThan(0);
      expect(types.length > 0).toBe(weights.length > 0);
    }
    expect(await model.run(steps)).toEqual(before);
  });

  it("is there for recurrent layers, and ends when it is cancelled", async () => {
    const path = folder.file("hybrid.gguf");
    await writeHybridModel(path, { context: 128 });
    await using backend = openEmulated(32);
    await using model = await openModel(path, backend);
    const times = await model.plan.profileKernels({ tokens: 2, isPrompt: false, depth: 30 });
    expect(times.map(({ kernel }) => kernel)).toContain("recurrent/delta-net");
    const ending = new AbortController();
    ending.abort(new Error("enough"));
    const cancelled = model.plan.profileKernels({ tokens: 1, isPrompt: false, depth: 0, signal: ending.signal });
    await expect(cancelled).rejects.toThrow("enough");
  });
});
