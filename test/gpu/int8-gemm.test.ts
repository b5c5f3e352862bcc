// Dense matmuls by the matrix units' products of bytes (kernels/matmul/int8-gemm.hip), on the emulated device as cards that take
// them, RDNA4 (waves of 32) and CDNA (waves of 64): tiles of every number of tokens, widths of broken slabs, a gated network
// of several types, and what attention leaves.

import { expect, it } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { hiddenOf, normalisedError, type ProgramCase, runSteps } from "../conformance/harness.js";
import type { WaveSize } from "./emulated-hip.js";
import { describeEmulator } from "./emulator/build.js";
import { attentionCase, matmulCase, NETWORK_WIDTH, networkCase, servedSteps, stepOf } from "./gemm-cases.js";
import { openPretended } from "./pretended-device.js";

/** Of the squared error to the squared result, of inputs that are quantized already: what is left is the order of additions. */
const TOLERANCE = 1e-9;
/** Of matmuls that quantize their inputs to 8 bits, one or two of them, as in test/conformance/few-tokens.test.ts. */
const QUANTIZED_TOLERANCE = 1e-4;
/** Of every number of tokens in a tile, whole and with a rest, and of several tiles. */
const TOKEN_COUNTS = [9, 16, 30, 64, 100, 300];
/** Those that all types of RDNA4's take products of bytes for, and CDNA. */
const FEW_TOKEN_COUNTS = [9, 16, 30];

describeEmulator("dense matmuls by products of bytes", () => {
  async function expectNear(
    waveSize: WaveSize,
    wanted: ProgramCase,
    width: number,
    tolerance: number,
    steps: readonly StepInput[] = TOKEN_COUNTS.map(stepOf),
  ): Promise<void> {
    await using reference = new ReferenceBackend();
    await using backend = openPretended({ architecture: waveSize === 32 ? "gfx1201" : "gfx942", waveSize });
    const [expected, found] = await Promise.all([runSteps(reference, wanted, steps), runSteps(backend, wanted, steps)]);
    for (const [index, step] of steps.entries()) {
      const error = normalisedError(hiddenOf(found[index], width), hiddenOf(expected[index], width));
      expect(error, `${step.tokens.length} tokens`).toBeLessThan(tolerance);
    }
  }

  it.each([
    [32, "Q8_0", { inputs: 896, outputs: 129 }],
    [32, "Q4_0", { inputs: 1152, outputs: 300 }],
  ] as const)("multiply with waves of %i, %s", async (waveSize, type, shape) => {
    await expectNear(waveSize, matmulCase(type, shape), shape.outputs, TOLERANCE);
  });

  it.each([
    [32, "Q4_K", { inputs: 768, outputs: 300 }],
    [32, "Q6_K", { inputs: 256, outputs: 70 }],
    [64, "Q4_0", { inputs: 640, outputs: 70 }],
    [64, "Q8_0", { inputs: 896, outputs: 129 }],
    [64, "Q4_K", { inputs: 768, outputs: 40 }],
  ] as const)("multiply few tokens with waves of %i, %s", async (waveSize, type, shape) => {
    const steps = FEW_TOKEN_COUNTS.map(stepOf);
    await expectNear(waveSize, matmulCase(type, shape), shape.outputs, TOLERANCE, steps);
  });

  it("compute a gated network", async () => {
    await expectNear(32, networkCase("Q8_0", "Q4_0"), NETWORK_WIDTH, QUANTIZED_TOLERANCE);
  });

  it("compute a gated network of K types, beside products of halves", async () => {
    await expectNear(64, networkCase("Q4_K", "Q6_K"), NETWORK_WIDTH, QUANTIZED_TOLERANCE);
  });

  it("take what attention leaves, of prompts and of sequences that decode", async () => {
    await expectNear(32, attentionCase("Q8_0"), NETWORK_WIDTH, QUANTIZED_TOLERANCE, servedSteps());
  });
});
