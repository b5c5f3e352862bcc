// Kernels that are there before a step wants them, and what a step asks of the driver when nothing is new about it.

import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import type { BackendOptions, StepInput } from "../../src/backends/contract.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { decodeStep, openModel, promptStep, writeModel } from "./random-models.js";
import { SilentCompiler, SilentDriver } from "./silent-driver.js";
import { useSilentModel } from "./silent-model.js";

const { folder, path } = useSilentModel("on");

function open(backendOptions: BackendOptions = {}): {
  readonly backend: GpuBackend;
  readonly driver: SilentDriver;
  readonly compiler: SilentCompiler;
} {
  const [driver, compiler] = [new SilentDriver(), new SilentCompiler()];
  return { driver, compiler, backend: openGpuBackend({ driver, compiler, name: "cuda", backendOptions }) };
}

/** When nothing has been asked for in a while: long enough for a busy machine. */
async function settled(compiler: SilentCompiler): Promise<void> {
  for (let before = -1; before < compiler.asked.length;) {
    before = compiler.asked.length;
    await pause(600);
  }
}

describe("kernels", () => {
  it("of single tokens are asked for when the plan is made, for short sequences and long ones, and what re-lays weights", async () => {
    vi.stubEnv("ROCMFORGE_GPU_PREWARM", "off");
    const { backend, compiler } = open();
    await using _ = backend;
    await using model = await openModel(path, backend);
    await settled(compiler);
    const before = compiler.asked.length;
    expect(before).toBeGreaterThan(3);
    await model.run([promptStep(1), promptStep(1, 140), promptStep(1, 141)]);
    expect(compiler.files()).toContain("weights/repack.hip");
    expect(compiler.files(before)).toEqual([]);
  });

  it("of everything else follow the first step, and later steps of any size wait for none", async () => {
    const { backend, compiler } = open();
    await using _ = backend;
    await using model = await openModel(path, backend);
    await settled(compiler);
    const before = compiler.asked.length;
    await model.run([promptStep(5)]);
    await settled(compiler);
    const after = compiler.asked.length;
    expect(after).toBeGreaterThan(before + 5);
    await model.run([promptStep(20), promptStep(70), promptStep(200), decodeStep(3, 0), decodeStep(4, 20)]);
    expect(compiler.asked.slice(after).map(({ name, defines }) => ({ name, defines }))).toEqual([]);
  });

  it("of nothing else follow the first step if the backend is told so", async () => {
    const { backend, compiler } = open({ prewarm: false });
    await using _ = backend;
    await using model = await openModel(path, backend);
    await settled(compiler);
    await model.run([promptStep(5)]);
    const after = compiler.asked.length;
    await settled(compiler);
    expect(compiler.asked).toHaveLength(after);
    await model.run([promptStep(40)]);
    expect(compiler.asked.length).toBeGreaterThan(after);
  });

  it("of decoding are there at every depth of the context, alone and in company", async () => {
    // With two heads on sixteen multiprocessors, one sequence takes another way from 17 splits on, and sixteen from two.
    const narrow = folder.file("narrow.gguf");
    await writeModel(narrow, { heads: 2, kvHeads: 1 });
    const [deep, blockTokens] = [4096, 16];
    const { backend, compiler } = open();
    await using _ = backend;
    await using loader = await GgufLoader.open(narrow);
    await using plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: deep, blockTokens });
    using cache = plan.createKvCache();
    const table = Int32Array.from({ length: deep / blockTokens }, (_none, block) => block);
    const stepAt = (position: number): StepInput => ({ ...promptStep(1, position), blockTables: [table] });
    await plan.step(stepAt(0), cache);
    await settled(compiler);
    const before = compiler.asked.length;
    for (const depth of [1, 127, 128, 1000, 1023, 1024, 1151, 2047, 2048, 4095]) await plan.step(stepAt(depth), cache);
    for (const position of [3, 200]) {
      const steps = Array.from({ length: 16 }, (_none, sequence) => ({
        ...stepAt(position),
        table: table.subarray(sequence * 16, sequence * 16 + 16),
      }));
      await plan.step(
        {
          tokens: Int32Array.from(steps, ({ tokens: [token] }) => token),
          positions: Int32Array.from(steps, () => position),
          sequenceOffsets: Int32Array.from({ length: 17 }, (_none, index) => index),
          blockTables: steps.map(({ table: blocks }) => blocks),
          outputs: steps.map((_step, row) => ({ row, want: { kind: "candidates", count: 1 } })),
        },
        cache,
      );
    }
    expect(compiler.asked.slice(before).map(({ name, defines }) => ({ name, defines }))).toEqual([]);
    const ways = compiler.asked
      .filter(({ name }) => name === "attention/decode.hip")
      .map(({ defines }) => defines["BLOCK_HEADS"]);
    expect(new Set(ways)).toEqual(new Set([1, 2]));
  });

  it("are each asked for once", async () => {
    const { backend, compiler } = open();
    await using _ = backend;
    await using model = await openModel(path, backend);
    await model.run([promptStep(5), promptStep(40)]);
    await settled(compiler);
    const names = compiler.asked.map(
      ({ name, defines }) => `${name} ${JSON.stringify(Object.entries(defines).sort())}`,
    );
    expect(new Set(names).size).toBe(names.length);
  });

  it("are not waited for by a backend that goes: what is being compiled is ended", async () => {
    const { backend, compiler } = open();
    let release = (): void => {};
    {
      await using model = await openModel(path, backend);
      await model.run([promptStep(5)]);
      compiler.hold = new Promise((resolve) => (release = resolve));
      await vi.waitFor(() => expect(compiler.asked.length).toBeGreaterThan(10), { timeout: 60_000 });
    }
    const ending = backend[Symbol.asyncDispose]();
    await vi.waitFor(() => expect(compiler.asked.at(-1)?.signal?.aborted).toBe(true), { timeout: 60_000 });
    const { length } = compiler.asked;
    release();
    await ending;
    await pause(50);
    expect(compiler.asked).toHaveLength(length);
  });
});

describe("steps of one size", () => {
  it("are replayed, and not from where a weight no more is", async () => {
    const { backend, driver } = open();
    await using _ = backend;
    await using loader = await GgufLoader.open(path);
    await using model = await openModel(path, backend);
    const step = { ...decodeStep(1, 0), outputs: [{ row: 0, want: { kind: "candidates", count: 1 } } as const] };
    await model.run([step, step, step]);
    const replays = driver.calls.get("launchGraph") ?? 0;
    const launches = driver.calls.get("launch") ?? 0;
    await model.run([step, step]);
    expect(driver.calls.get("launchGraph")).toBe(replays + 2);
    expect(driver.calls.get("launch")).toBe(launches);
    // Another model's tensor that goes is no reason to bind anything anew.
    const [name] = loader.file.tensors.keys();
    await loader.lazy(name, backend).load();
    expect(loader.clearGpuCache()).toBeGreaterThan(0);
    await model.run([step]);
    expect(driver.calls.get("launchGraph")).toBe(replays + 3);
  });
});
