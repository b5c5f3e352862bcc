// Every module that a step of any family takes is taken by a fragment of its program too, so that no kernel computes text
// before it was compared with a CPU. Only lowering runs here.

import { afterAll, expect, it } from "vitest";
import { GpuProgram } from "../../../src/backends/gpu/execution/program.js";
import { fragmentsFor, planTrials } from "../../../src/backends/gpu/checking/trial-plan.js";
import type { TrialHost } from "../../../src/backends/gpu/checking/kernel-trial.js";
import { KernelStore } from "../../../src/backends/gpu/kernels/kernel-store.js";
import { KernelChoices } from "../../../src/backends/gpu/lowering/kernel-choices.js";
import type { LaunchSize } from "../../../src/backends/gpu/lowering/launch.js";
import { createContext, fuseForGpu } from "../../../src/backends/gpu/lowering/lowering.js";
import { exactSize } from "../../../src/backends/gpu/lowering/step-bucket.js";
import { GpuRuntime } from "../../../src/backends/gpu/memory/runtime.js";
import { openGpuBackend } from "../../../src/backends/gpu/backend.js";
import type { CompiledProgram, ProgramLimits } from "../../../src/backends/contract.js";
import type { Program } from "../../../src/graph/program.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import { GgufLoader } from "../../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../../src/plan/execution-plan.js";
import type { LazyTensor } from "../../../src/tensor/lazy-tensor.js";
import { familyModel } from "../../conformance/models/family-model.js";
import { FAMILY_NAMES, familyCase } from "../../conformance/models/family-shapes.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { SilentCompiler, SilentDriver } from "../silent-driver.js";
import { FULL_RUN } from "../../support/full-run.js";

const CONTEXT = 4096;
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const FEW_FAMILIES = ["llama", "qwen35moe", "gpt-oss", "deepseek2", "granitehybrid", "gemma4"];
const FAMILIES = FULL_RUN ? FAMILY_NAMES : FEW_FAMILIES;

const prompt = (tokens: number, first = 0): LaunchSize =>
  exactSize({
    tokens,
    outputs: 1,
    scored: 1,
    sequences: 1,
    tiles: Math.ceil(tokens / 64),
    longest: first + tokens,
    longestRun: tokens,
  });
const decode = (sequences: number, longest: number): LaunchSize =>
  exactSize({
    tokens: sequences,
    outputs: sequences,
    scored: sequences,
    sequences,
    tiles: sequences,
    longest,
    longestRun: 1,
  });
const SIZES: readonly LaunchSize[] = [
  ...[3, 9, 40, 100, 400].map((tokens) => prompt(tokens)),
  prompt(5, 300),
  prompt(40, 1000),
  ...[1, 2, 5, 16, 40].flatMap((sequences) => [1, 200, 4000].map((longest) => decode(sequences, longest))),
];

interface Compiled {
  readonly program: Program;
  readonly weights: readonly LazyTensor[];
  readonly limits: ProgramLimits;
}

/** What a plan gives to its backend. */
async function compiledOf(path: string): Promise<Compiled> {
  const backend = openGpuBackend({
    driver: new SilentDriver(),
    compiler: new SilentCompiler(),
    name: "cuda",
    backendOptions: {},
  });
  let compiled: Compiled | undefined;
  const compile = backend.compile.bind(backend);
  backend.compile = (program, weights, limits): CompiledProgram => {
    compiled = { program, weights, limits };
    return compile(program, weights, limits);
  };
  await using loader = await GgufLoader.open(path);
  ExecutionPlan.fromLoader(loader, backend, { contextTokens: CONTEXT, blockTokens: 16 });
  if (compiled === undefined) throw new TypeError("nothing was compiled");
  return compiled;
}

it.each(FAMILIES)("%s", async (family) => {
  const { seed, shape } = familyCase(family, 0);
  const path = folder.file("model.gguf");
  await writeGguf(path, familyModel(seed, shape));
  const { program, weights, limits } = await compiledOf(path);
  const driver = new SilentDriver();
  const device = driver.open();
  const runtime = new GpuRuntime(device, new KernelStore(device, new SilentCompiler()), { slabs: true });
  const choices = new KernelChoices({ deterministic: false });
  const options = { blas: false, checks: false, graphs: false, prewarm: false, tune: false, trial: true };
  const compile: TrialHost["compile"] = (part, partWeights, partLimits) => {
    const context = createContext({
      fused: fuseForGpu(part),
      weights: partWeights.map(({ descriptor }) => descriptor),
      limits: partLimits,
      device: device.properties,
      kind: device.kind,
      deterministic: false,
      choices,
    });
    return new GpuProgram(runtime, context, partWeights, options, () => {});
  };
  const refuse = (): never => {
    throw new TypeError("nothing is computed");
  };
  const host: TrialHost = { weights, limits, compile, upload: refuse, sourceOf: refuse, createKvCache: refuse };
  const whole = compile(program, weights, limits, { choices, blas: false });
  const fragments = fragmentsFor(host, program);
  for (const size of SIZES) {
    const { uncovered } = planTrials(host, fragments, size, whole.modulesFor(size));
    expect({ size, uncovered }).toEqual({ size, uncovered: [] });
  }
});
