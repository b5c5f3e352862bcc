// Dense matmuls by the wide products of sm_90 (kernels/matmul/wide-gemm.hip), on the emulated device: tiles of every number of
// tokens, shared among blocks, of one matrix, of several types at once, and of a gated network.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { GpuBackend } from "../../src/backends/gpu/backend.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { hiddenOf, normalisedError, type ProgramCase, runSteps } from "../conformance/harness.js";
import { describeEmulator } from "./emulator/build.js";
import { attentionCase, matmulCase, NETWORK_WIDTH, networkCase, servedSteps, stepOf } from "./gemm-cases.js";
import { openWideBackend } from "./pretended-device.js";

/** Of the squared error to the squared result, as in test/conformance/matmul.test.ts. */
const TOLERANCE = 1e-6;
/** Of results that go through an activation and another matmul, whose inputs are f16. */
const NETWORK_TOLERANCE = 1e-5;
/** Of every number of tokens in a tile, whole and with a rest, and of several tiles. */
const TOKEN_COUNTS = [9, 16, 30, 64, 100, 300];

describeEmulator("dense matmuls by wide products", () => {
  let backend: GpuBackend;
  beforeAll(() => {
    backend = openWideBackend();
  });
  afterAll(async () => await backend[Symbol.asyncDispose]());

  async function expectNear(
    wanted: ProgramCase,
    width: number,
    tolerance: number,
    counts: readonly number[] = TOKEN_COUNTS,
  ): Promise<void> {
    await using reference = new ReferenceBackend();
    const steps = counts.map(stepOf);
    const [expected, found] = await Promise.all([runSteps(reference, wanted, steps), runSteps(backend, wanted, steps)]);
    for (const [index, count] of counts.entries()) {
      const error = normalisedError(hiddenOf(found[index], width), hiddenOf(expected[index], width));
      expect(error, `${count} tokens`).toBeLessThan(tolerance);
    }
  }

  it.each([
    ["Q4_K", { inputs: 1280, outputs: 300 }],
    ["Q6_K", { inputs: 256, outputs: 70 }],
    ["Q8_0", { inputs: 928, outputs: 129 }],
    ["Q5_K", { inputs: 512, outputs: 40 }],
  ] as const)("multiply %s", async (type, shape) => {
    await expectNear(matmulCase(type, shape), shape.outputs, TOLERANCE);
  });

  it.each(["Q4_0", "Q4_1", "Q5_0", "Q3_K", "IQ4_XS", "MXFP4"] as const)("decode %s", async (type) => {
    await expectNear(matmulCase(type, { inputs: 256, outputs: 40 }), 40, TOLERANCE, [12]);
  });

  it("take what attention leaves, of prompts and of sequences that decode", async () => {
    await using reference = new ReferenceBackend();
    const [wanted, steps] = [attentionCase("Q4_K"), servedSteps()];
    const [expected, found] = await Promise.all([runSteps(reference, wanted, steps), runSteps(backend, wanted, steps)]);
    for (const [index, rows] of found.entries()) {
      const error = normalisedError(hiddenOf(rows, NETWORK_WIDTH), hiddenOf(expected[index], NETWORK_WIDTH));
      expect(error, `step ${index}`).toBeLessThan(NETWORK_TOLERANCE);
    }
  });

  it("compute a gated network", async () => {
    await expectNear(networkCase("Q4_K", "Q6_K"), NETWORK_WIDTH, NETWORK_TOLERANCE);
  });
});
