// Matmuls of few tokens in the order of loads that NVIDIA's cards have: weights before inputs, turns of a ring that stay a loop,
// a last pass like the others (kernels/matmul/row-stream.h), and the decoder of Q6_K that goes with it. The emulated device
// runs AMD's order everywhere else. Both add in the same order, so every bit is the same.

import { expect, it } from "vitest";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { MIXTURE_WIDTH, mixtureCase } from "../conformance/experts-case.js";
import {
  type CaseWeight,
  hiddenOf,
  inputTable,
  plainStep,
  type ProgramCase,
  randomWeight,
  runSteps,
} from "../conformance/harness.js";
import { Dice } from "../support/dice.js";
import { emulatedHip, openEmulated } from "./emulated-hip.js";
import { describeEmulator } from "./emulator/build.js";

/** NVIDIA's lanes of a wave. */
const WAVE_SIZE = 32;
/** By which kernels know a compiler of NVIDIA's. */
const NVIDIA = { __CUDA_ARCH__: 900 };
/** Behind every kernel: it must not be in AMD's order. */
const CHECK = '\n#if defined(INPUTS_FIRST) && INPUTS_FIRST\n#error "inputs are loaded first"\n#endif\n';
const COUNTS = [1, 2, 5, 8];
const MOST = Math.max(...COUNTS);

/** The emulated device with kernels that were compiled as if by NVIDIA's compiler. */
function openOtherOrder(): GpuBackend {
  const { driver, compiler } = emulatedHip(`wave-${WAVE_SIZE}`, { waveSize: WAVE_SIZE });
  return openGpuBackend({
    driver,
    compiler: {
      // Compiled kernels are kept under this name.
      identity: `${compiler.identity}, weights first`,
      compile: async (source, options) =>
        await compiler.compile(`${source}${CHECK}`, { ...options, defines: { ...options.defines, ...NVIDIA } }),
    },
    name: "hip",
    backendOptions: {},
  });
}

interface Network {
  readonly width: number;
  readonly feedForward: number;
  readonly gate: SupportedTypeName;
  readonly down: SupportedTypeName;
}

/** A norm, gate and up, down with a residual, and a last matrix with biases. */
function networkCase({ width, feedForward, gate, down }: Network): ProgramCase {
  const dice = new Dice(width + feedForward);
  const matrix = (type: SupportedTypeName, inputs: number, rows: number): CaseWeight =>
    randomWeight(dice, type, [inputs, rows], 1 / Math.sqrt(inputs));
  const shape = { inputs: width, outputs: feedForward };
  return {
    vocabularySize: MOST,
    weights: {
      inputs: inputTable(dice, width, MOST),
      "norm.weight": randomWeight(dice, "F32", [width]),
      "gate.weight": matrix(gate, width, feedForward),
      "up.weight": matrix(gate, width, feedForward),
      "down.weight": matrix(down, feedForward, width),
      "output.weight": matrix(down, width, width),
      "output.bias": inputTable(dice, width, 1),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, MOST);
      const normed = graph.rmsNorm(input, "norm", 1e-5);
      const gated = graph.glu(graph.matmul(normed, "gate", shape), graph.matmul(normed, "up", shape), "silu");
      const sum = graph.add(input, graph.matmul(gated, "down", { inputs: feedForward, outputs: width }));
      const last = graph.matmul(sum, "output", { inputs: width, outputs: width });
      return { hidden: graph.selectRows(last, "outputs") };
    },
  };
}

async function expectSameBits(wanted: ProgramCase, width: number): Promise<void> {
  await using usual = openEmulated(WAVE_SIZE);
  await using other = openOtherOrder();
  const steps = COUNTS.map((count) => plainStep(count));
  const expected = await runSteps(usual, wanted, steps);
  const found = await runSteps(other, wanted, steps);
  for (const [index, count] of COUNTS.entries()) {
    const rows = hiddenOf(expected[index], width);
    expect(rows.some((value) => value !== 0)).toBe(true);
    expect(hiddenOf(found[index], width), `${count} tokens`).toEqual(rows);
  }
}

describeEmulator("weights before inputs", () => {
  it.each<Network>([
    { width: 512, feedForward: 1536, gate: "Q4_K", down: "Q6_K" },
    { width: 256, feedForward: 320, gate: "Q8_0", down: "F16" },
  ])("gives the same bits for $gate and $down", async (network) => {
    await expectSameBits(networkCase(network), network.width);
  });

  it("gives the same bits for a mixture of experts", async () => {
    const wanted = { type: "Q4_K", downType: "Q6_K", activation: "silu", experts: 8, used: 2 } as const;
    await expectSameBits(mixtureCase(wanted, MOST), MIXTURE_WIDTH);
  });
});
