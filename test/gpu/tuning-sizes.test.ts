// The tuner over a driver that computes nothing, with a clock that prefers known parameters: which kernels are tuned, what
// becomes of the choices, and that it ends when it should.

import { existsSync, readdirSync } from "node:fs";
import { expect, it, vi } from "vitest";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import type { CompileOptions, GpuDevice, LaunchShape } from "../../src/backends/gpu/drivers/shared/driver.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { BLOCK_TOKENS, CONTEXT, decodeStep } from "./random-models.js";
import { SilentCompiler, SilentDriver } from "./silent-driver.js";
import { useSilentModel } from "./silent-model.js";
import { watchDriver } from "./watched-device.js";

const { path } = useSilentModel("off");
const LONG_MS = 60_000;

interface Opened extends AsyncDisposable {
  readonly backend: GpuBackend;
  readonly plan: ExecutionPlan;
  readonly compiler: StuckCompiler;
  /** Threads of all launches so far. */
  readonly threads: number[];
  run(): Promise<void>;
}

interface Setting {
  readonly poor?: boolean;
  readonly deterministic?: boolean;
  readonly tune?: "on" | "off";
}

/** A compiler that can be made to take forever. */
class StuckCompiler extends SilentCompiler {
  isStuck = false;

  override async compile(source: string, options: CompileOptions): Promise<Uint8Array> {
    const code = await super.compile(source, options);
    if (this.isStuck) await new Promise((_, reject) => options.signal?.addEventListener("abort", reject));
    return code;
  }
}

/** Blocks of 128 threads are the fastest; poor ones have 256, or 64 in tiles, and others are slower still. */
function blockMs(threads: number): number {
  if (threads === 128) return 1;
  return threads === 256 || threads === 64 ? 2 : 3;
}

async function open({ poor = true, deterministic = false, tune = "on" }: Setting = {}): Promise<Opened> {
  vi.stubEnv("ROCMFORGE_GPU_POOR_DEFAULTS", poor ? "on" : "off");
  vi.stubEnv("ROCMFORGE_GPU_GRAPHS", "off");
  vi.stubEnv("ROCMFORGE_GPU_TUNE", tune);
  const threads: number[] = [];
  const driver = watchDriver(new SilentDriver(), (device) => ({
    // Without wide products, whose blocks have other numbers of threads.
    properties: { ...device.properties, architecture: "sm_89" },
    launch: (...call: Parameters<GpuDevice["launch"]>) => void threads.push((call[1] as LaunchShape).threads),
    elapsedMs: () => blockMs(threads.at(-1) ?? 0),
    [Symbol.dispose]: () => device[Symbol.dispose](),
  }));
  const compiler = new StuckCompiler();
  const backend = openGpuBackend({ driver, compiler, name: "cuda", backendOptions: { deterministic } });
  const loader = await GgufLoader.open(path);
  const plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: CONTEXT, blockTokens: BLOCK_TOKENS });
  return {
    backend,
    plan,
    compiler,
    threads,
    async run() {
      using kvCache = plan.createKvCache();
      await plan.step(decodeStep(1, 0), kvCache);
    },
    async [Symbol.asyncDispose]() {
      await loader[Symbol.asyncDispose]();
      await backend[Symbol.asyncDispose]();
    },
  };
}

it(
  "tunes the kernels of every batch size, and steps use the winners, in later processes too",
  { timeout: LONG_MS },
  async () => {
    const path128 = await (async () => {
      await using model = await open();
      await model.run();
      const report = await model.plan.tune({ budgetMs: LONG_MS });
      expect(report).toMatchObject({ isComplete: true, rejected: 0 });
      const names = report!.choices.map(({ kernel, shape }) => `${kernel} ${shape.split(" ").at(-1)}`);
      for (const size of ["gemv t1", "gemv t2", "gemv t4", "gemv t8", "gemm t16", "gemm t32", "gemm t64", "gemm t128"])
        expect(names).toContain(size);
      for (const { kernel, after, beforeUs, afterUs } of report!.choices) {
        if (kernel !== "gemv") continue;
        expect(after["threads"]).toBe(128);
        expect(beforeUs! / afterUs!).toBeCloseTo(2);
      }
      model.threads.length = 0;
      await model.run();
      expect(model.threads.filter((count) => count === 128).length).toBeGreaterThan(5);
      return report!.keptIn!;
    })();
    expect(existsSync(path128)).toBe(true);

    await using later = await open();
    await later.run();
    const used = later.backend.tuned();
    expect(used.length).toBeGreaterThan(3);
    expect(used.every(({ beforeUs, afterUs }) => beforeUs !== null && afterUs !== null)).toBe(true);

    // The same record is ignored if tuning is off, and by processes that do not begin with poor parameters.
    for (const setting of [{ tune: "off" }, { poor: false }] as const) {
      await using other = await open(setting);
      await other.run();
      expect(other.backend.tuned()).toEqual([]);
    }
  },
);

it("leaves parameters that reorder sums alone in deterministic mode", { timeout: LONG_MS }, async () => {
  await using model = await open({ deterministic: true });
  const report = await model.plan.tune({ budgetMs: LONG_MS });
  expect(report!.choices.length).toBeGreaterThan(10);
  for (const { kernel, before, after } of report!.choices) {
    expect(kernel).not.toBe("gemm");
    expect(after["split"]).toBe(before["split"]);
  }
  await using other = await open();
  await other.run();
  expect(other.backend.tuned()).toEqual([]);
});

it("ends when its time is up, with compilations under way, and keeps nothing that was not timed", async () => {
  await using model = await open();
  await model.run();
  const { length } = model.compiler.asked;
  model.compiler.isStuck = true;
  const report = await model.plan.tune({ budgetMs: 100 });
  expect(report).toMatchObject({ choices: [], isComplete: false, keptIn: null });
  // What is under way would never end; a busy machine may be late all the same.
  expect(report!.seconds).toBeLessThan(LONG_MS / 1000);
  expect(model.compiler.asked.length).toBeGreaterThan(length);
  model.compiler.isStuck = false;
  await model.run();
});

it("ends soon when it is aborted or its model is closed", { timeout: LONG_MS }, async () => {
  const abort = new AbortController();
  {
    await using model = await open();
    const report = await model.plan.tune({
      budgetMs: LONG_MS,
      signal: abort.signal,
      onProgress: () => abort.abort(),
    });
    expect(report!.isComplete).toBe(false);
    // What was done by then is kept.
    expect(report!.choices.length).toBeGreaterThan(0);
    expect(report!.keptIn).not.toBeNull();
  }
  const closed = await open();
  const ended = closed.plan.tune({ budgetMs: LONG_MS }).then(
    (report) => report?.isComplete ?? false,
    () => false,
  );
  await closed[Symbol.asyncDispose]();
  expect(await ended).toBe(false);
});

it(
  "tunes by itself while a model is idle, beside steps that come meanwhile, and ends with it",
  { timeout: LONG_MS },
  async () => {
    const kept = (): boolean => {
      const folder = process.env["ROCMFORGE_KERNEL_CACHE"]!;
      return existsSync(folder) && readdirSync(folder).some((name) => /^device-[0-9a-f]{64}\.json$/.test(name));
    };
    const closedMs = await (async () => {
      await using model = await open();
      await model.run();
      const { length } = model.compiler.asked;
      await new Promise((resolve) => void setTimeout(resolve, 1000));
      expect(model.compiler.asked.length).toBe(length);
      await vi.waitFor(() => expect(kept()).toBe(true), { timeout: LONG_MS / 2 });
      for (let step = 0; step < 20; step++) await model.run();
      return performance.now();
    })();
    expect(performance.now() - closedMs).toBeLessThan(10_000);
    await using later = await open();
    await later.run();
    expect(later.backend.tuned().length).toBeGreaterThan(0);
  },
);
