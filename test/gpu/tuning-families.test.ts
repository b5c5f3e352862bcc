// The tuner over kernels of each family on the emulated device, which pretends to be a card of NVIDIA's with wide products:
// candidates are compiled, compared and, by a clock that prefers known shapes, chosen, and steps compute the same with them.

import { afterAll, expect, it } from "vitest";
import type { OutputRow, StepInput } from "../../src/backends/contract.js";
import { GpuBackend } from "../../src/backends/gpu/backend.js";
import type { GpuDevice, LaunchShape } from "../../src/backends/gpu/drivers/shared/driver.js";
import { DeviceRecord } from "../../src/backends/gpu/kernels/device-record.js";
import { KernelCache } from "../../src/backends/gpu/kernels/kernel-cache.js";
import { KernelStore } from "../../src/backends/gpu/kernels/kernel-store.js";
import type { TuneReport } from "../../src/backends/tuning.js";
import { u32 } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { encodeTensor } from "../../src/quant/codec.js";
import { familyModel } from "../conformance/models/family-model.js";
import { normalisedError } from "../conformance/harness.js";
import { FULL_RUN } from "../support/full-run.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeEmulator } from "./emulator/build.js";
import { emulatedHip } from "./emulated-hip.js";
import { pretending } from "./pretended-device.js";
import { decodeStep, openModel, promptStep, writeModel } from "./random-models.js";
import { watchDriver } from "./watched-device.js";

const LONG_MS = 120_000;
/** Of the squared error to the squared result: activations that are on the border of two quantized values take the other one. */
const TOLERANCE = 1e-3;
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const MODELS = {
  /** Down has rows so long that a block has few waves to spare. */
  dense: (path: string) => writeModel(path, { types: ["Q4_K"], feedForward: 4352 }),
  network: (path: string) => writeModel(path, { types: ["Q8_0"], layers: 1, kvHeads: 4, feedForward: 128 }),
  /** Two layers, because the last one has rows for outputs alone. */
  mixture: (path: string) => writeMixture(path, { used: 4, layers: 2 }),
  /** So many experts that a batch has few slots of each. */
  sparse: (path: string) => writeMixture(path, { used: 2, layers: 1 }),
} as const;

async function writeMixture(
  path: string,
  { used, layers }: Readonly<Record<"used" | "layers", number>>,
): Promise<void> {
  const experts = [u32("expert_count", 16), u32("expert_used_count", used), u32("expert_feed_forward_length", 64)];
  const shape = { architecture: "qwen3moe", layers, width: 128, keys: () => experts };
  const { metadata, tensors } = familyModel(5, shape);
  const quantized = tensors.map((tensor) => {
    if (tensor.shape.length < 2 || tensor.name.includes("gate_inp")) return tensor;
    const floats = new Float32Array(Uint8Array.from(tensor.data).buffer);
    return { ...tensor, type: "Q8_0" as const, data: encodeTensor("Q8_0", floats) };
  });
  await writeGguf(path, { metadata, tensors: quantized });
}

interface Tuned {
  readonly report: TuneReport;
  readonly before: readonly Float32Array[];
  readonly after: readonly Float32Array[];
}

interface Wanted {
  readonly model: keyof typeof MODELS;
  /** What is tuned, by the beginning of its name. */
  readonly family: string;
  readonly step: StepInput;
  /** Milliseconds of a launch by its shape. */
  readonly clock: (shape: LaunchShape) => number;
}

/** Tunes kernels of one family, and runs a step with and without what was chosen. */
async function tune({ model: name, family, step, clock }: Wanted): Promise<Tuned> {
  const path = folder.file(`${name}.gguf`);
  await MODELS[name](path);
  const found = pretending(emulatedHip("sm_90-32", { waveSize: 32, sharedBytes: 227 << 10 }), "sm_90");
  let last: LaunchShape | undefined;
  let before: readonly unknown[] = [];
  let isTuning = false;
  const driver = watchDriver(found.driver, (device) => ({
    launch: (...call: Parameters<GpuDevice["launch"]>) => {
      const [kernel, shape, block] = call;
      // Of launches that are only timed, one after another, the first is enough: the clock does not depend on them.
      const isRepeated = isTuning && before[0] === kernel && before[1] === block;
      before = [kernel, block];
      last = { ...shape, grid: [...shape.grid] };
      if (!isRepeated) device.launch(...call);
    },
    elapsedMs: () => (last === undefined ? 0 : clock(last)),
  }));
  const device = driver.open(0);
  await using backend = new GpuBackend(device, new KernelStore(device, found.compiler, { cache: new KernelCache() }), {
    name: "hip",
    because: "a test",
    deterministic: false,
    graphs: false,
    slabs: false,
    blas: false,
    prewarm: false,
    checks: false,
    tune: true,
    usesTuned: true,
    record: new DeviceRecord(
      { kind: "hip", device: device.properties, driver: "test", compiler: found.compiler.identity },
      folder.file(`${name} ${family}`),
    ),
    poorDefaults: false,
    isTuned: (choice) => `${choice} `.startsWith(`${family} `),
  });
  await using model = await openModel(path, backend);
  const logits = async (): Promise<readonly Float32Array[]> => (await model.run([step])).map(logitsOf);
  const untuned = await logits();
  isTuning = true;
  const report = (await model.plan.tune({ budgetMs: LONG_MS }))!;
  isTuning = false;
  return { report, before: untuned, after: await logits() };
}

function logitsOf([row]: readonly OutputRow[]): Float32Array {
  if (row.kind !== "logits") throw new TypeError(`a row of ${row.kind}`);
  return row.logits;
}

interface Case extends Wanted {
  readonly title: string;
  /** Whether compiling its candidates takes the host so long that only the full run does. */
  readonly isLong?: boolean;
  /** What the clock prefers. */
  readonly chosen: Readonly<Record<string, number>>;
}

const faster = (isFaster: boolean): number => (isFaster ? 1 : 2);

const CASES: readonly Case[] = [
  {
    title: "matmuls of one token by lanes",
    model: "dense",
    family: "lane-gemv handed 12 256x4352",
    step: decodeStep(1, 0),
    clock: ({ threads }) => faster(threads === 320),
    chosen: { teams: 2 },
  },
  {
    title: "gate and up by wide products, which leave panels",
    isLong: true,
    model: "network",
    family: "wide-gemm gated 8,8 128x256 t16",
    step: promptStep(16),
    clock: ({ threads, grid: [blocks] }) => faster(threads === 384 && blocks === 2),
    chosen: { teams: 2, shares: 1 },
  },
  {
    title: "experts on the matrix units",
    isLong: true,
    model: "mixture",
    family: "grouped-gemm gated 8 4of16x64x128 t64",
    step: promptStep(128),
    clock: ({ sharedBytes }) => faster(sharedBytes === 2 * 16 * 65 * 16),
    chosen: { stages: 2 },
  },
  {
    title: "experts over sorted slots",
    model: "sparse",
    family: "sorted-gemv gated",
    step: promptStep(16),
    clock: ({ threads }) => faster(threads === 256),
    chosen: { threads: 256 },
  },
  {
    title: "attention of tokens that decode",
    model: "dense",
    family: "decode-attention f16 4of2x64+64 b1",
    step: decodeStep(1, 0),
    clock: ({ grid: [, rows] }) => faster(rows === 2),
    chosen: { heads: 2 },
  },
  {
    title: "attention of prompts",
    isLong: true,
    model: "network",
    family: "flash-attention",
    step: promptStep(128),
    clock: ({ sharedBytes }) => faster(sharedBytes === (1 + 2 * 2) * 64 * 64 * 2 + 1024),
    chosen: { positions: 64 },
  },
];

describeEmulator("the tuner", () => {
  it.each(CASES.filter(({ isLong = false }) => FULL_RUN || !isLong))(
    "tunes $title",
    { timeout: LONG_MS },
    async ({ chosen, ...wanted }) => {
      const { report, before, after } = await tune(wanted);
      expect(report).toMatchObject({ isComplete: true, rejected: 0 });
      expect(report.tried).toBeGreaterThan(0);
      expect(report.choices.map(({ after: parameters }) => parameters)).toContainEqual(expect.objectContaining(chosen));
      for (const [index, row] of after.entries()) expect(normalisedError(row, before[index])).toBeLessThan(TOLERANCE);
    },
  );
});
