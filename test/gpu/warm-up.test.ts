// A warm-up over a driver that computes nothing: after it, steps of whatever size ask for no kernel, and batches of every
// size and depth are replayed from their first step on.

import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it, vi } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import type { StepShape } from "../../src/backends/warm-up-step.js";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import { bindCalls, type NativeCall, openLibrary } from "../../src/backends/gpu/drivers/shared/ffi.js";
import { WarmUp } from "../../src/engine/warm-up.js";
import { BlockPools } from "../../src/kv-cache/block-pools.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { Dice } from "../support/dice.js";
import { VOCABULARY, writeModel } from "./random-models.js";
import { SilentCompiler, SilentDriver } from "./silent-driver.js";
import { useSilentModel } from "./silent-model.js";

const CONTEXT = 1024;
const BLOCK_TOKENS = 16;
const SEQUENCES = 64;
const NEVER = new AbortController().signal;

const { folder } = useSilentModel("on");

interface Opened extends AsyncDisposable {
  readonly driver: SilentDriver;
  readonly compiler: SilentCompiler;
  readonly backend: GpuBackend;
  readonly plan: ExecutionPlan;
  run(step: StepInput): Promise<void>;
  warmUp(sequences?: number): Promise<WarmUp>;
}

async function open(changes: Parameters<typeof writeModel>[1] = {}): Promise<Opened> {
  const path = folder.file("warm.gguf");
  await writeModel(path, { context: CONTEXT, ...changes });
  const [driver, compiler] = [new SilentDriver(), new SilentCompiler()];
  const backend = openGpuBackend({ driver, compiler, name: "cuda", backendOptions: {} });
  const loader = await GgufLoader.open(path);
  const plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: CONTEXT, blockTokens: BLOCK_TOKENS });
  const kvCache = plan.createKvCache(SEQUENCES * CONTEXT);
  const pools = new BlockPools([{ blocks: kvCache.options.blocks }], BLOCK_TOKENS);
  return {
    driver,
    compiler,
    backend,
    plan,
    run: async (step) => void (await plan.step(step, kvCache)),
    async warmUp(sequences = SEQUENCES) {
      await plan.step(stepOf({ decoding: 1, prompt: 0, longest: 1 }), kvCache);
      const warmUp = new WarmUp({
        plan,
        store: { kvCache, pools },
        vocabularySize: VOCABULARY,
        sequences,
        isBusy: () => false,
      });
      await warmUp.run(NEVER);
      await warmUp.ended;
      expect(pools.groups[0].freeBlocks).toBe(pools.groups[0].blocks);
      return warmUp;
    },
    async [Symbol.asyncDispose]() {
      kvCache[Symbol.dispose]();
      await loader[Symbol.asyncDispose]();
      await backend[Symbol.asyncDispose]();
    },
  };
}

type Shape = StepShape & { readonly want?: "hidden" | "logits" };

/** Decoding sequences at one depth, a prompt behind them; blocks of their own. */
function stepOf({ decoding, prompt, longest, want }: Shape): StepInput {
  const blocks = CONTEXT / BLOCK_TOKENS;
  const sequences = decoding + (prompt > 0 ? 1 : 0);
  const positions = [
    ...Array<number>(decoding).fill(longest - 1),
    ...Array.from({ length: prompt }, (_, index) => index),
  ];
  const rows =
    want === "hidden"
      ? positions.map((_, row) => row)
      : [...Array(decoding).keys(), ...(prompt > 0 ? [decoding + prompt - 1] : [])];
  return {
    tokens: Int32Array.from(positions, (_, row) => row % VOCABULARY),
    positions: Int32Array.from(positions),
    sequenceOffsets: Int32Array.from([...Array.from({ length: sequences }, (_, index) => index), decoding + prompt]),
    blockTables: Array.from({ length: sequences }, (_, sequence) =>
      Int32Array.from({ length: blocks }, (_none, block) => sequence * blocks + block),
    ),
    outputs: rows.map((row) => ({
      row,
      want: want === undefined ? ({ kind: "candidates", count: 5 } as const) : ({ kind: want } as const),
    })),
  };
}

/** What the compiler was asked for since it had been asked so often. */
function askedSince({ compiler }: Opened, count: number): readonly object[] {
  return compiler.asked.slice(count).map(({ name, defines }) => ({ name, defines }));
}

describe("after a warm-up", () => {
  it.each([
    ["quantised", { types: ["Q4_K", "Q6_K", "Q8_0"] }],
    [
      "plain and biased",
      { architecture: "qwen2", types: ["F16", "BF16", "Q5_1"], biases: ["attn_q", "attn_k", "attn_v"] },
    ],
    ["with few heads", { types: ["Q4_0"], heads: 2, kvHeads: 1 }],
  ] as const)("no step asks for a kernel: %s", { timeout: 60_000 }, async (_name, changes) => {
    await using model = await open(changes as Parameters<typeof writeModel>[1]);
    await model.warmUp();
    const { length } = model.compiler.asked;
    const dice = new Dice(11);
    const upTo = (most: number): number => dice.below(most + 1);
    for (let count = 0; count < 150; count++) {
      const decoding = upTo(3) === 0 ? 0 : upTo(SEQUENCES - 1);
      const prompt = decoding === 0 || upTo(1) === 0 ? 1 + upTo([8, 40, 130, 480][upTo(3)]) : 0;
      await model.run(stepOf({ decoding, prompt, longest: 1 + upTo(CONTEXT - 1) }));
    }
    expect(askedSince(model, length)).toEqual([]);
    for (const want of ["hidden", "logits"] as const) {
      for (const prompt of [1, 5, 20, 60]) await model.run(stepOf({ decoding: 0, prompt, longest: prompt, want }));
    }
    expect(askedSince(model, length)).toEqual([]);
  });

  it("batches of every size and depth are replayed, the first time too", async () => {
    await using model = await open();
    await model.warmUp();
    const { calls } = model.driver;
    const [launches, captures] = [calls.get("launch"), calls.get("endCapture")];
    const steps = [1, 2, 3, 5, 8, 9, 16, 17, 40, 64].flatMap((decoding) =>
      [1, 100, 129, 500, 1024].map((longest) => ({ decoding, prompt: 0, longest })),
    );
    const replays = calls.get("launchGraph") ?? 0;
    for (const step of steps) await model.run(stepOf(step));
    expect(calls.get("launchGraph")).toBe(replays + steps.length);
    expect([calls.get("launch"), calls.get("endCapture")]).toEqual([launches, captures]);
  });

  it("nothing has moved: tables and masks of a whole batch have room", async () => {
    await using model = await open();
    await model.warmUp();
    const allocations = ["allocate", "allocateHost"].map((name) => model.driver.calls.get(name));
    const step = stepOf({ decoding: SEQUENCES, prompt: 0, longest: CONTEXT });
    const allowMask = new Uint32Array(Math.ceil(VOCABULARY / 32)).fill(0xffff_ffff);
    await model.run({ ...step, outputs: step.outputs.map((output) => ({ ...output, allowMask })) });
    expect(["allocate", "allocateHost"].map((name) => model.driver.calls.get(name))).toEqual(allocations);
  });

  it("of fewer sequences, batches as large as there are need nothing either", async () => {
    await using model = await open();
    await model.warmUp(10);
    const { length } = model.compiler.asked;
    const captures = model.driver.calls.get("endCapture");
    for (const decoding of [1, 4, 9, 10]) await model.run(stepOf({ decoding, prompt: 0, longest: 300 }));
    for (const prompt of [4, 20]) await model.run(stepOf({ decoding: 9, prompt, longest: 1 }));
    expect(askedSince(model, length)).toEqual([]);
    expect(model.driver.calls.get("endCapture")).toBe(captures);
  });
});

const cxx = ["g++", "clang++"].find((name) => spawnSync(name, ["--version"]).status === 0);

describe.skipIf(cxx === undefined)("the library's choices (needs g++ or clang++ for a stand-in)", () => {
  const PROMPT = { decoding: 0, prompt: CONTEXT, longest: CONTEXT };
  let chosen: NativeCall<[]>;

  beforeAll(() => {
    const path = folder.file("matrix-library.so");
    execFileSync(cxx!, [
      "-std=c++17",
      "-O1",
      "-shared",
      "-fPIC",
      "-o",
      path,
      fileURLToPath(new URL("./blas/fake-library.cpp", import.meta.url)),
    ]);
    const library = openLibrary([path]);
    if ("missing" in library) throw new Error(library.reason);
    const bound = bindCalls<{ readonly heuristics: NativeCall<[]> }>(library, { heuristics: "int fakeHeuristics()" });
    if ("lacking" in bound) throw new Error(bound.lacking.join());
    chosen = bound.calls.heuristics;
  });

  function useLibrary(cache: string): void {
    vi.stubEnv("ROCMFORGE_GPU_BLAS", "on");
    vi.stubEnv("ROCMFORGE_CUBLASLT_LIBRARY", folder.file("matrix-library.so"));
    vi.stubEnv("ROCMFORGE_KERNEL_CACHE", cache);
    // There is no memory behind the driver's addresses.
    vi.stubEnv("FAKE_BLAS_FAIL", "multiply");
  }

  /** Algorithms that a process which finds this cache folder has the library choose for a prompt. */
  async function choicesFor(cache: string): Promise<number> {
    useLibrary(cache);
    await using model = await open();
    await model.run(stepOf({ decoding: 1, prompt: 0, longest: 1 }));
    const before = chosen();
    await model.plan.prepareWarmUp(PROMPT);
    await model.plan.rehearse(PROMPT);
    return chosen() - before;
  }

  it("are kept on disk, and made anew where what is there is not whole", async () => {
    const cache = folder.file("choices");
    const first = await choicesFor(cache);
    expect(first).toBeGreaterThan(2);
    await vi.waitFor(async () => expect(await choicesFor(cache)).toBe(0), { timeout: 60_000 });
    for (const name of readdirSync(cache)) {
      const path = join(cache, name);
      if (readFileSync(path).includes('{"')) truncateSync(path, statSync(path).size - 1);
    }
    expect(await choicesFor(cache)).toBe(first);
  });

  it("are made for long prompts while a model that nobody warmed up is idle, and not while steps run", async () => {
    useLibrary(folder.file("idle"));
    await using model = await open();
    const before = chosen();
    const endMs = performance.now() + 150;
    while (performance.now() < endMs) await model.run(stepOf({ decoding: 1, prompt: 0, longest: 1 }));
    expect(chosen()).toBe(before);
    await vi.waitFor(() => expect(chosen()).toBeGreaterThan(before + 2), { timeout: 20_000 });
  });
});

it("is nothing where kernels are compiled when a step wants them", async () => {
  vi.stubEnv("ROCMFORGE_GPU_PREWARM", "off");
  await using model = await open();
  expect(model.plan.warmUpSteps(SEQUENCES)).toEqual([]);
});
