// Attributes of operations on the GPU beside what test/conformance/attributes.test.ts compares: which launches and modules
// they come to, windows longer than a split in batches, and large batches through the epilogues of a BLAS library.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import { openGpuBackend } from "../../src/backends/gpu/backend.js";
import { visibleSplits } from "../../src/backends/gpu/memory/kv-layout.js";
import { type LaunchSize, type LaunchSpec, type LaunchVariant } from "../../src/backends/gpu/lowering/launch.js";
import { createContext, fuseForGpu, lowerStep } from "../../src/backends/gpu/lowering/lowering.js";
import { exactSize } from "../../src/backends/gpu/lowering/step-bucket.js";
import { isLaunch } from "../../src/backends/gpu/lowering/step-item.js";
import { layoutByName } from "../../src/quant/layout.js";
import { attentionCase, type AttentionAttributes } from "../conformance/attention-case.js";
import {
  type CaseWeight,
  hiddenOf,
  inputTable,
  normalisedError,
  plainStep,
  type ProgramCase,
  programOf,
  randomWeight,
  runSteps,
} from "../conformance/harness.js";
import { referenceSteps } from "../conformance/reference-results.js";
import { Dice } from "../support/dice.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import {
  askedMatmuls,
  BLAS_LIBRARY_VARIABLE,
  buildFakeLibrary,
  fakeLibraryCompiler,
  oneByOne,
} from "./blas/fake-library.js";
import { emulatedHip } from "./emulated-hip.js";
import { describeEmulator } from "./emulator/build.js";
import { watchDriver } from "./watched-device.js";

const HEADS = { heads: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64 };
const CARD = { waveSize: 64, multiprocessors: 60, sharedBytes: 64 << 10, totalBytes: 16e9 } as const;
const LIMITS = { maxTokens: 512, maxOutputs: 64, contextTokens: 8192, blockTokens: 16, kvCacheType: "f16" } as const;

function launchesOf(attributes: AttentionAttributes, size: LaunchSize): readonly LaunchSpec[] {
  const subject = attentionCase(HEADS, { type: "f16", blockTokens: 16, blocks: 8, rotated: true }, 8, attributes);
  const program = programOf(subject);
  const weights = program.weights.map(({ name }) => {
    const { type, shape, data } = subject.weights[name];
    const elements = shape.reduce((count, dimension) => count * dimension, 1);
    return { name, layout: layoutByName(type), shape, elements, sizeBytes: data.length };
  });
  const context = createContext({
    fused: fuseForGpu(program),
    weights,
    limits: LIMITS,
    device: CARD,
    kind: "hip",
    deterministic: false,
  });
  return lowerStep(context, { tokens: "small", outputs: "small", blas: false })
    .filter(isLaunch)
    .filter(({ file, grid }) => file.startsWith("attention/") && grid(size).every((blocks) => blocks > 0));
}

function variantOf({ variants, choose }: LaunchSpec, size: LaunchSize): LaunchVariant {
  return variants[choose?.(size) ?? 0];
}

const decode = (longest: number): LaunchSize =>
  exactSize({ tokens: 1, sequences: 1, outputs: 1, scored: 0, tiles: 1, longest, longestRun: 1 });

describe("decoding with a window", () => {
  it.each([
    [200, 2],
    [1024, 8],
  ])("launches splits for the %i positions of the window, at any depth", (window, splits) => {
    const size = decode(8000);
    expect(visibleSplits({ window }, size.splits)).toBe(splits);
    const [attention, merge] = launchesOf({ window }, size);
    expect(attention.file).toBe("attention/decode");
    expect(attention.grid(size)[0]).toBe(splits);
    expect(merge.file).toBe("attention/combine");
    expect(variantOf(merge, size).defines).toMatchObject({ WINDOW: window });
  });

  it("launches parts for a long window alone, at any depth", () => {
    const gridAt = (longest: number): readonly (string | number)[] => {
      const size = decode(longest);
      const [attention, merge] = launchesOf({ window: 4096 }, size);
      expect(merge.file).toBe("attention/deep-combine");
      expect(variantOf(merge, size).defines).toMatchObject({ WINDOW: 4096 });
      expect(variantOf(attention, size).defines).toMatchObject({ WINDOW: 4096 });
      return [attention.file, ...attention.grid(size)];
    };
    expect(visibleSplits({ window: 4096 }, decode(8000).splits)).toBe(32);
    // 4224 positions, in parts of 256 and more; 60 multiprocessors have two kv heads.
    expect(gridAt(8000)).toEqual(["attention/deep-decode", 2, 17, 1]);
    expect(gridAt(8192)).toEqual(gridAt(5000));
  });

  it("launches the same kernels as without one while the sequence is shorter than a split", () => {
    const kernels = (attributes: AttentionAttributes): readonly string[] =>
      launchesOf(attributes, decode(128)).map((launch) => variantOf(launch, decode(128)).kernel);
    expect(kernels({ window: 100 })).toEqual(kernels({}));
  });
});

it("compiles operations without attributes to modules without their defines", () => {
  for (const size of [decode(100), decode(8000)]) {
    for (const launch of launchesOf({}, size)) {
      const names = Object.keys(variantOf(launch, size).defines);
      expect(names.filter((name) => ["WINDOW", "SOFT_CAP", "SINKS", "TILE_WAVES"].includes(name))).toEqual([]);
    }
  }
});

const TOKENS = 400;
const INPUTS = 128;
const WIDTH = 256;
/** Of f16 inputs. */
const TOLERANCE = 1e-6;

/** Gate and up with GELU, a matmul with a soft-cap and a residual, a matmul with a soft-cap alone. */
function largeCase(): ProgramCase {
  const dice = new Dice(21);
  const matrix = (inputs: number, outputs: number): CaseWeight =>
    randomWeight(dice, "F16", [inputs, outputs], 2 / Math.sqrt(inputs));
  return {
    vocabularySize: TOKENS,
    weights: {
      inputs: inputTable(dice, INPUTS, TOKENS),
      "gate.weight": matrix(INPUTS, WIDTH),
      "up.weight": matrix(INPUTS, WIDTH),
      "down.weight": matrix(WIDTH, INPUTS),
      "last.weight": matrix(INPUTS, INPUTS),
    },
    build: (graph) => {
      const input = graph.embed("inputs", INPUTS, TOKENS, { scale: 1.5 });
      const gate = graph.matmul(input, "gate", { inputs: INPUTS, outputs: WIDTH });
      const up = graph.matmul(input, "up", { inputs: INPUTS, outputs: WIDTH });
      const gated = graph.glu(gate, up, "gelu");
      const down = graph.matmul(gated, "down", { inputs: WIDTH, outputs: INPUTS, softCap: 2 });
      const last = graph.matmul(graph.add(input, down), "last", { inputs: INPUTS, outputs: INPUTS, softCap: 3 });
      return { hidden: graph.selectRows(last, "outputs") };
    },
  };
}

describeEmulator("large batches with attributes", () => {
  const folder = new TemporaryFolder();
  const library = folder.file("blas.so");
  beforeAll(() => buildFakeLibrary(library));
  afterAll(() => folder[Symbol.dispose]());

  async function errorWith(blas: string): Promise<number> {
    const { driver, compiler } = emulatedHip("wave-32", { waveSize: 32 });
    process.env[BLAS_LIBRARY_VARIABLE] = blas;
    try {
      await using backend = openGpuBackend({
        driver: watchDriver(driver, oneByOne),
        compiler,
        name: "hip",
        backendOptions: {},
      });
      const whole = plainStep(TOKENS);
      const step: StepInput = { ...whole, outputs: whole.outputs.slice(-32) };
      const [[expected], [found]] = [
        await referenceSteps(largeCase(), [step]),
        await runSteps(backend, largeCase(), [step]),
      ];
      expect(backend.notices()).toEqual([]);
      return normalisedError(hiddenOf(found, INPUTS), hiddenOf(expected, INPUTS));
    } finally {
      delete process.env[BLAS_LIBRARY_VARIABLE];
    }
  }

  it("are right by GEMM kernels", async () => {
    expect(await errorWith("/nowhere/libhipblaslt.so")).toBeLessThan(TOLERANCE);
  });

  it.skipIf(fakeLibraryCompiler === undefined)(
    "are right by a BLAS library and the epilogues (needs g++ or clang++ for the stand-in)",
    async () => {
      expect(await errorWith(library)).toBeLessThan(TOLERANCE);
      expect(askedMatmuls(library)).toBeGreaterThan(2);
    },
  );
});
