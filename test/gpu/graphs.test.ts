// A decoding step as one captured graph: the same bits as launch by launch, one launch a step, and no graph that outlives
// what it was captured for.

import { afterAll, beforeAll, expect, it } from "vitest";
import { openGpuBackend } from "../../src/backends/gpu/backend.js";
import type { StepInput } from "../../src/backends/contract.js";
import { describeEmulator } from "../hip-emulator/build.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { emulatedHip } from "./emulated-hip.js";
import { decodeStep, openModel, promptStep, writeModel } from "./random-models.js";
import { watchDriver, type WatchedDriver } from "./watched-device.js";

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
beforeAll(() => writeModel(path));
afterAll(() => folder[Symbol.dispose]());

/** Counts come and go, sequences pass the border of a split, prompts stand between. */
const STEPS: readonly StepInput[] = [
  ...[0, 1, 2, 3].map((position) => decodeStep(1, position)),
  ...[0, 1, 2].map((position) => decodeStep(3, position)),
  promptStep(20),
  promptStep(110, 20),
  ...[130, 131, 132].map((position) => promptStep(1, position)),
  ...[3, 4].map((position) => decodeStep(4, position)),
];

async function runWith(graphs: "on" | "off"): Promise<{ readonly rows: unknown; readonly driver: WatchedDriver }> {
  const found = emulatedHip("wave-32", { waveSize: 32 });
  const driver = watchDriver(found.driver);
  process.env["ROCMFORGE_GPU_GRAPHS"] = graphs;
  try {
    await using backend = openGpuBackend({ driver, compiler: found.compiler, name: "hip", backendOptions: {} });
    await using model = await openModel(path, backend);
    return { rows: await model.run(STEPS), driver };
  } finally {
    delete process.env["ROCMFORGE_GPU_GRAPHS"];
  }
}

describeEmulator("graphs", () => {
  it("give the same bits as launches one by one", async () => {
    const eager = await runWith("off");
    const replayed = await runWith("on");
    expect(eager.driver.calls.get("launchGraph")).toBeUndefined();
    expect(replayed.driver.calls.get("launchGraph")).toBeGreaterThan(5);
    expect(replayed.rows).toEqual(eager.rows);
  });

  it("make a step one launch, and one copy each way", async () => {
    const found = emulatedHip("wave-32", { waveSize: 32 });
    const driver = watchDriver(found.driver);
    await using backend = openGpuBackend({ driver, compiler: found.compiler, name: "hip", backendOptions: {} });
    await using model = await openModel(path, backend);
    using cache = model.plan.createKvCache();
    const greedy = (position: number): StepInput => ({ ...promptStep(1, position), outputs: [{ row: 0, want: { kind: "candidates", count: 1 } }] });
    for (let position = 0; position < 4; position++) await model.plan.step(greedy(position), cache);
    driver.calls.clear();
    await model.plan.step(greedy(4), cache);
    const { calls } = driver;
    expect(["launch", "launchGraph", "copyToDevice", "copyToHost", "record", "allocate", "allocateHost", "createEvent", "createArguments", "synchronize"].map((name) => calls.get(name) ?? 0)).toEqual([
      0, 1, 1, 1, 1, 0, 0, 0, 0, 0,
    ]);
  });
});
