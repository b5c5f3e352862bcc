// Steps that are queued behind a running one, which chooses their tokens: the same tokens as one step after the other, also
// where such a step has to wait because its graph is not there yet, and where other work comes between.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { KvCache, OutputRow, OutputWant, StepInput } from "../../src/backends/contract.js";
import { openGpuBackend } from "../../src/backends/gpu/backend.js";
import { gpuError } from "../../src/backends/gpu/drivers/shared/gpu-error.js";
import type { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeEmulator } from "./emulator/build.js";
import { emulatedHip } from "./emulated-hip.js";
import { decodeStep, openModel, writeModel } from "./random-models.js";
import { watchDriver } from "./watched-device.js";

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
beforeAll(() => writeModel(path));
afterAll(() => folder[Symbol.dispose]());

const SAMPLING = { temperature: 1, topK: 0, typicalP: 1, topP: 1, minP: 0, minKeep: 1 };

/** How the token of a row is chosen; `draw` differs from step to step. */
const WANTS: Readonly<Record<string, (draw: number) => OutputWant>> = {
  "the most likely": () => ({ kind: "candidates", count: 1 }),
  "drawn tokens": (draw) => ({ kind: "token", sampling: { ...SAMPLING, draw }, top: 0 }),
  "drawn tokens with the likeliest ones": (draw) => ({ kind: "token", sampling: { ...SAMPLING, draw }, top: 3 }),
};

interface Text {
  readonly plan: ExecutionPlan;
  readonly cache: KvCache;
  readonly sequences: number;
  readonly steps: number;
  readonly want: (draw: number) => OutputWant;
}

function chosen(row: OutputRow): number {
  if (row.kind === "token") return row.token;
  if (row.kind === "candidates") return row.ids[0];
  throw new TypeError(row.kind);
}

function stepAt({ sequences, want }: Text, position: number, tokens: readonly number[]): StepInput {
  const step = decodeStep(sequences, position);
  return {
    ...step,
    tokens: Int32Array.from(tokens),
    outputs: step.outputs.map(({ row }) => ({ row, want: want(((position * 37 + row * 11) % 100) / 100) })),
  };
}

/** Tokens of each sequence, one step after the other. */
async function inTurns(text: Text): Promise<number[][]> {
  let tokens = Array.from({ length: text.sequences }, (_, sequence) => sequence * 5 + 1);
  const texts: number[][] = [];
  for (let position = 0; position < text.steps; position++) {
    tokens = (await text.plan.step(stepAt(text, position, tokens), text.cache)).map(chosen);
    texts.push(tokens);
  }
  return texts;
}

/** The same, each step given while the one before runs. */
async function queuedEarly(text: Text): Promise<number[][]> {
  const { plan, cache, sequences, steps } = text;
  const running: Promise<readonly OutputRow[]>[] = [];
  const texts: number[][] = [];
  const none = Array.from({ length: sequences }, () => 0);
  const previousOutputs = Int32Array.from({ length: sequences }, (_, row) => row);
  for (let position = 0; position <= steps; position++) {
    if (position < steps) {
      const first = Array.from(none, (_, sequence) => sequence * 5 + 1);
      const step = position === 0 ? stepAt(text, 0, first) : { ...stepAt(text, position, none), previousOutputs };
      running.push(plan.step(step, cache));
    }
    if (position > 0) texts.push((await running[position - 1]).map(chosen));
  }
  return texts;
}

describeEmulator("steps ahead", () => {
  it.each(Object.entries(WANTS))("give the tokens of steps one after the other: %s", async (_name, want) => {
    const found = emulatedHip("wave-32", { waveSize: 32 });
    const driver = watchDriver(found.driver);
    await using backend = openGpuBackend({ driver, compiler: found.compiler, name: "hip", backendOptions: {} });
    await using model = await openModel(path, backend);
    const { plan } = model;
    expect(plan.asyncScheduling).toBe(true);
    for (const sequences of [1, 3]) {
      using cache = plan.createKvCache();
      const text = { plan, cache, sequences, steps: 8, want };
      const expected = await inTurns(text);
      expect(new Set(expected.flat()).size).toBeGreaterThan(2);
      expect(await queuedEarly(text)).toEqual(expected);
    }
  });

  it("wait for their turn if there is no pinned memory for a second one", async () => {
    const { driver, compiler } = emulatedHip("wave-32", { waveSize: 32 });
    let [isFull, refused] = [false, 0];
    const full = watchDriver(driver, (device) => ({
      allocateHost: (sizeBytes: number) => {
        if (!isFull) return device.allocateHost(sizeBytes);
        refused++;
        throw gpuError({ kind: "out of memory", place: "hip device 0", what: "pinned memory is used up" });
      },
    }));
    await using backend = openGpuBackend({ driver: full, compiler, name: "hip", backendOptions: {} });
    await using model = await openModel(path, backend);
    using cache = model.plan.createKvCache();
    const text: Text = { ...model, cache, sequences: 2, steps: 6, want: WANTS["the most likely"] };
    const expected = await inTurns(text);
    isFull = true;
    expect(await queuedEarly(text)).toEqual(expected);
    expect(refused).toBe(1);
  });

  it("take tokens of whichever output is named, and known ones beside them", async () => {
    const found = emulatedHip("wave-32", { waveSize: 32 });
    const driver = watchDriver(found.driver);
    await using backend = openGpuBackend({ driver, compiler: found.compiler, name: "hip", backendOptions: {} });
    await using model = await openModel(path, backend);
    using cache = model.plan.createKvCache();
    const text: Text = { ...model, cache, sequences: 3, steps: 4, want: WANTS["the most likely"] };
    // Enough for graphs of three sequences.
    await inTurns(text);
    driver.calls.clear();
    const first = model.plan.step(stepAt(text, 0, [1, 6, 11]), cache);
    const next = stepAt(text, 1, [0, 42, 0]);
    const second = model.plan.step({ ...next, previousOutputs: Int32Array.of(2, -1, 0) }, cache);
    // Both are queued before the first one's end can have been noticed.
    expect(driver.calls.get("launchGraph")).toBe(2);
    const [rows, answer] = [(await first).map(chosen), await second];
    expect(answer).toEqual(await model.plan.step({ ...next, tokens: Int32Array.of(rows[2], 42, rows[0]) }, cache));
  });

  it("are not given while another caller's step is in flight, which would be the previous one", async () => {
    const { driver, compiler } = emulatedHip("wave-32", { waveSize: 32 });
    await using backend = openGpuBackend({ driver, compiler, name: "hip", backendOptions: {} });
    await using model = await openModel(path, backend);
    const { plan } = model;
    using cache = plan.createKvCache();
    using otherCache = plan.createKvCache();
    const text: Text = { ...model, cache, sequences: 1, steps: 4, want: WANTS["the most likely"] };
    const first = plan.step(stepAt(text, 0, [1]), cache);
    expect(plan.asyncScheduling).toBe(true);
    const other = plan.step(stepAt(text, 0, [2]), otherCache);
    expect(plan.asyncScheduling).toBe(false);
    await Promise.all([first, other]);
    expect(plan.asyncScheduling).toBe(true);
  });

  it("are right after a step that failed, and refuse outputs that the previous step did not have", async () => {
    const { driver, compiler } = emulatedHip("wave-32", { waveSize: 32 });
    await using backend = openGpuBackend({ driver, compiler, name: "hip", backendOptions: {} });
    await using model = await openModel(path, backend);
    using cache = model.plan.createKvCache();
    const text: Text = { ...model, cache, sequences: 1, steps: 4, want: WANTS["the most likely"] };
    const expected = await inTurns(text);
    const ending = new AbortController();
    ending.abort(new Error("ended"));
    const failing = model.plan.step(stepAt(text, 0, [1]), cache, { signal: ending.signal });
    await expect(failing).rejects.toThrow("ended");
    expect(await queuedEarly(text)).toEqual(expected);
    await expect(
      model.plan.step({ ...stepAt(text, 1, [0]), previousOutputs: Int32Array.of(1) }, cache),
    ).rejects.toThrow(/previousOutputs: expected outputs of the previous step that choose a token, found 1, none/);
  });
});
