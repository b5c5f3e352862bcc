// The tuner on the emulated device: real kernels, compiled, checked and launched, with a clock that prefers known
// parameters. Which kernels are tuned is limited, because the host's compiler takes a second for each candidate.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { GpuBackend } from "../../src/backends/gpu/backend.js";
import type { GpuDevice, LaunchShape } from "../../src/backends/gpu/drivers/shared/driver.js";
import { DeviceRecord } from "../../src/backends/gpu/kernels/device-record.js";
import { KernelCache } from "../../src/backends/gpu/kernels/kernel-cache.js";
import { KernelStore } from "../../src/backends/gpu/kernels/kernel-store.js";
import type { TuneReport } from "../../src/backends/tuning.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeEmulator } from "./emulator/build.js";
import { emulatedHip } from "./emulated-hip.js";
import { decodeStep, openModel, type OpenedModel, promptStep, writeModel } from "./random-models.js";
import { watchDriver } from "./watched-device.js";

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
beforeAll(() => writeModel(path, { types: ["Q4_K"] }));
afterAll(() => folder[Symbol.dispose]());

const STEPS = [decodeStep(1, 0), decodeStep(1, 1), decodeStep(1, 2), promptStep(5)];
const LONG_MS = 120_000;

interface Setting {
  readonly records: string;
  /** Microseconds of a launch by its shape; absent: the device's own clock. */
  readonly clock?: (shape: LaunchShape) => number;
  readonly isTuned?: (name: string) => boolean;
  readonly deterministic?: boolean;
  readonly poor?: boolean;
  /** Launches that write nothing. */
  readonly isLost?: (shape: LaunchShape) => boolean;
}

interface Opened extends AsyncDisposable {
  readonly backend: GpuBackend;
  readonly model: OpenedModel;
  readonly record: DeviceRecord;
  tune(): Promise<TuneReport>;
}

async function open(setting: Setting): Promise<Opened> {
  const { records, clock, isTuned, deterministic = false, poor = false, isLost = () => false } = setting;
  const found = emulatedHip("wave-32", { waveSize: 32 });
  const state = { isTuning: false };
  const driver = watchDriver(found.driver, (device) => {
    if (clock === undefined) return {};
    let last: LaunchShape | undefined;
    let kernel: bigint | undefined;
    return {
      launch: (...call: Parameters<GpuDevice["launch"]>) => {
        // Of launches that are only timed, one after another, the first is enough: the clock does not depend on them.
        const isRepeated = state.isTuning && kernel === call[0];
        [kernel, last] = [call[0], { ...call[1], grid: [...call[1].grid] }];
        if (!isRepeated && !isLost(call[1])) device.launch(...call);
      },
      elapsedMs: () => (last === undefined ? 0 : clock(last)),
    };
  });
  const device = driver.open(0);
  const record = new DeviceRecord(
    { kind: "hip", device: device.properties, driver: "test", compiler: found.compiler.identity, poor },
    folder.file(records),
  );
  const kernels = new KernelStore(device, found.compiler, { cache: new KernelCache() });
  const backend = new GpuBackend(device, kernels, {
    name: "hip",
    because: "a test",
    deterministic,
    graphs: clock === undefined,
    slabs: false,
    blas: false,
    prewarm: false,
    checks: false,
    tune: true,
    usesTuned: true,
    record,
    poorDefaults: poor,
    ...(isTuned === undefined ? {} : { isTuned }),
  });
  const model = await openModel(path, backend);
  return {
    backend,
    model,
    record,
    async tune() {
      state.isTuning = true;
      try {
        return (await model.plan.tune({ budgetMs: LONG_MS }))!;
      } finally {
        state.isTuning = false;
      }
    },
    async [Symbol.asyncDispose]() {
      await model[Symbol.asyncDispose]();
      await backend[Symbol.asyncDispose]();
    },
  };
}

const isGateAndUp = (name: string): boolean => name.startsWith("gemv gated") && name.endsWith(" t1");

describeEmulator("the tuner", () => {
  it(
    "finds parameters that are known to be faster, keeps them, and steps compute the same",
    { timeout: LONG_MS },
    async () => {
      const setting = {
        records: "found",
        isTuned: isGateAndUp,
        deterministic: true,
        poor: true,
        clock: ({ threads }: LaunchShape) => (threads === 128 ? 1 : 2),
      };
      await using tuned = await open(setting);
      const before = await tuned.model.run(STEPS);
      const report = await tuned.tune();
      expect(report).toMatchObject({ isComplete: true, rejected: 0, keptIn: tuned.record.path });
      expect(report.choices).toHaveLength(1);
      const [{ kernel, shape, before: old, after, beforeUs, afterUs }] = report.choices;
      expect([kernel, shape]).toEqual(["gemv", expect.stringMatching(/^gated .*Q4_K,Q4_K 512x256 t1$/)]);
      expect([old["threads"], after["threads"]]).toEqual([256, 128]);
      expect(beforeUs! / afterUs!).toBeCloseTo(2);
      expect(await tuned.model.run(STEPS)).toEqual(before);
      expect(tuned.backend.tuned()).toEqual(report.choices);

      await using later = await open(setting);
      expect(await later.model.run(STEPS)).toEqual(before);
      expect(later.backend.tuned()).toEqual(report.choices);
    },
  );

  it("ignores a record that is damaged or fits no kernel", { timeout: LONG_MS }, async () => {
    const setting = { records: "damaged", isTuned: isGateAndUp };
    const name = await (async () => {
      await using model = await open(setting);
      await model.model.run(STEPS.slice(0, 1));
      return model.record.path;
    })();
    const wrong = [
      "{",
      JSON.stringify({ chosen: { "gemv gated": { parameters: { rows: 64 } } }, modules: {} }),
      JSON.stringify({ chosen: { "nothing at all": { parameters: { rows: 1 } } }, modules: {} }),
    ];
    for (const text of wrong) {
      mkdirSync(folder.file("damaged"), { recursive: true });
      writeFileSync(name, text);
      await using model = await open(setting);
      await model.model.run(STEPS.slice(0, 1));
      expect(model.backend.tuned()).toEqual([]);
      expect(readFileSync(name, "utf8")).toBe(text);
    }
  });

  it("rejects candidates that compute something else", { timeout: LONG_MS }, async () => {
    let isWrong = false;
    await using model = await open({
      records: "wrong",
      isTuned: isGateAndUp,
      deterministic: true,
      poor: true,
      clock: ({ threads }) => (threads === 128 ? 1 : 2),
      isLost: ({ threads, sharedBytes }) => isWrong && threads === 128 && sharedBytes > 0,
    });
    await model.model.run(STEPS.slice(0, 1));
    isWrong = true;
    const report = await model.tune();
    expect(report.rejected).toBeGreaterThan(0);
    expect(report.choices.map(({ after }) => after["threads"])).toEqual([256]);
  });
});
