// The tuner on the emulated device with its own clock, captured launches and kernels of every family: where reads past a
// buffer's end are found. No candidate may compute something else, and steps afterwards compute the same but for rounding.

import { afterAll, expect, it } from "vitest";
import type { OutputRow } from "../../src/backends/contract.js";
import { GpuBackend } from "../../src/backends/gpu/backend.js";
import { DeviceRecord } from "../../src/backends/gpu/kernels/device-record.js";
import { KernelStore } from "../../src/backends/gpu/kernels/kernel-store.js";
import { u32 } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { encodeTensor } from "../../src/quant/codec.js";
import { familyModel } from "../conformance/models/family-model.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeEmulator } from "./emulator/build.js";
import { emulatedHip } from "./emulated-hip.js";
import { decodeStep, openModel, promptStep, writeModel } from "./random-models.js";

/** The host's compiler takes seconds for each candidate: what is not tuned by then is left out. */
const BUDGET_MS = 120_000;
const STEPS = [decodeStep(1, 0), decodeStep(1, 1), decodeStep(3, 0), promptStep(20)];
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

/** Experts of quantized weights, which decode in launches of their own. */
async function writeMixture(path: string): Promise<void> {
  const experts = [u32("expert_count", 6), u32("expert_used_count", 2), u32("expert_feed_forward_length", 64)];
  const { metadata, tensors } = familyModel(5, { architecture: "qwen3moe", layers: 2, keys: () => experts });
  const quantized = tensors.map((tensor) => {
    if (tensor.shape.length < 2 || tensor.name.includes("gate_inp")) return tensor;
    const floats = new Float32Array(Uint8Array.from(tensor.data).buffer);
    return { ...tensor, type: "Q8_0" as const, data: encodeTensor("Q8_0", floats) };
  });
  await writeGguf(path, { metadata, tensors: quantized });
}

const logitsOf = (rows: readonly (readonly OutputRow[])[]): readonly number[] =>
  rows.flat().flatMap((row) => (row.kind === "logits" ? [...row.logits] : []));

describeEmulator("the tuner", () => {
  it.each([
    ["gemv", "dense", (name: string) => name.startsWith("gemv") && name.endsWith(" t1")],
    ["gemm", "dense", (name: string) => name.startsWith("gemm") && name.endsWith(" t16")],
    ["experts", "mixture", (name: string) => name.startsWith("grouped-gemv") || name.startsWith("expert-sum")],
  ] as const)("tunes %s kernels of a %s model", { timeout: 10 * BUDGET_MS }, async (what, kind, isTuned) => {
    const path = folder.file(`${kind}.gguf`);
    if (kind === "dense") await writeModel(path);
    else await writeMixture(path);
    const found = emulatedHip("wave-32", { waveSize: 32 });
    const device = found.driver.open(0);
    const record = new DeviceRecord(
      { kind: "hip", device: device.properties, driver: "test", compiler: found.compiler.identity },
      folder.file(what),
    );
    await using backend = new GpuBackend(device, new KernelStore(device, found.compiler), {
      name: "hip",
      because: "a test",
      deterministic: false,
      graphs: true,
      slabs: false,
      blas: false,
      prewarm: false,
      checks: false,
      tune: true,
      usesTuned: true,
      record,
      poorDefaults: true,
      isTuned,
    });
    await using model = await openModel(path, backend);
    const before = logitsOf(await model.run(STEPS));
    const report = await model.plan.tune({ budgetMs: BUDGET_MS });
    expect(report?.rejected).toBe(0);
    expect(report?.tried).toBeGreaterThan(5);
    expect(report?.choices.length).toBeGreaterThan(0);
    const after = logitsOf(await model.run(STEPS));
    const scale = Math.max(...before.map(Math.abs));
    const differences = after.map((value, index) => Math.abs(value - before[index]) / scale);
    expect(Math.max(...differences)).toBeLessThan(0.02);
  });
});
