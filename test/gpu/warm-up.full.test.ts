// A warm-up on the emulated device, where reads past a buffer's end are found: what sequences have in the cache stays as it
// is, and steps after it give the same bits as without one.

import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { OutputRow, StepInput } from "../../src/backends/contract.js";
import { openGpuBackend } from "../../src/backends/gpu/backend.js";
import { WarmUp } from "../../src/engine/warm-up.js";
import { BlockPools } from "../../src/kv-cache/block-pools.js";
import { describeEmulator } from "./emulator/build.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { emulatedHip } from "./emulated-hip.js";
import { BLOCK_TOKENS, CONTEXT, openModel, promptStep, VOCABULARY, writeModel } from "./random-models.js";

const SEQUENCES = 2;
const NEVER = new AbortController().signal;
const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
beforeAll(() => writeModel(path, { types: ["Q4_K"], layers: 1 }));
afterAll(() => folder[Symbol.dispose]());

/** A prompt, then its tokens one by one; in between perhaps a warm-up that has the other half of the cache. */
async function rowsOf(warmsUp: boolean): Promise<readonly (readonly OutputRow[])[]> {
  vi.stubEnv("ROCMFORGE_GPU_PREWARM", warmsUp ? "on" : "off");
  try {
    await using backend = openGpuBackend({
      ...emulatedHip("wave-32", { waveSize: 32 }),
      name: "hip",
      backendOptions: {},
    });
    await using model = await openModel(path, backend);
    const { plan } = model;
    using kvCache = plan.createKvCache(2 * CONTEXT);
    const pools = new BlockPools([{ blocks: kvCache.options.blocks }], BLOCK_TOKENS);
    const own = pools.groups[0].allocate(CONTEXT / BLOCK_TOKENS) ?? [];
    const owned = (step: StepInput): StepInput => ({ ...step, blockTables: [Int32Array.from(own)] });
    const rows = [await plan.step(owned(promptStep(20)), kvCache)];
    if (warmsUp) {
      const warmUp = new WarmUp({
        plan,
        store: { kvCache, pools },
        vocabularySize: VOCABULARY,
        sequences: SEQUENCES,
        isBusy: () => false,
      });
      await warmUp.run(NEVER);
      await warmUp.ended;
      expect(warmUp.progress.steps).toBeGreaterThan(10);
      expect(warmUp.progress.done).toBe(warmUp.progress.steps);
    }
    for (let position = 20; position < 24; position++)
      rows.push(await plan.step(owned(promptStep(1, position)), kvCache));
    return rows;
  } finally {
    vi.unstubAllEnvs();
  }
}

describeEmulator("a warm-up", () => {
  it("leaves sequences as they are", { timeout: 900_000 }, async () => {
    expect(await rowsOf(true)).toEqual(await rowsOf(false));
  });
});
