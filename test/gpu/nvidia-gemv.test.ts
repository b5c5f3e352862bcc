// GEMV with NVIDIA's order of loads (kernels/matmul/row-stream.h: weights before inputs) on the emulated device, which has AMD's by
// itself: every number of tokens that a launch takes, whole and broken rows, for the types that are decoded in different ways.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { GpuBackend } from "../../src/backends/gpu/backend.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { createMatmulCase } from "../../src/verify/matmul-cases.js";
import { hiddenOf, normalisedError, plainStep, runSteps } from "../conformance/harness.js";
import { referenceSteps } from "../conformance/reference-results.js";
import { describeEmulator } from "./emulator/build.js";
import { openPretended } from "./pretended-device.js";

/** Of the squared error to the squared result. */
const TOLERANCE = 1e-6;
const TOKEN_COUNTS = [1, 2, 3, 4, 8];
const TYPES: readonly SupportedTypeName[] = ["Q4_K", "Q6_K", "Q8_0", "Q5_K", "IQ4_XS", "F16"];
const SHAPES = [
  { inputs: 256, outputs: 3 },
  { inputs: 1280, outputs: 70, bias: true },
] as const;

describeEmulator("GEMV with weights before inputs", () => {
  let backend: GpuBackend;
  beforeAll(() => {
    backend = openPretended({ architecture: "sm_80", waveSize: 32 });
  });
  afterAll(async () => await backend[Symbol.asyncDispose]());

  it.each(TYPES)("multiplies %s", { timeout: 60_000 }, async (type) => {
    for (const shape of SHAPES) {
      const wanted = createMatmulCase(type, shape, Math.max(...TOKEN_COUNTS));
      const [all] = await referenceSteps(wanted, [plainStep(Math.max(...TOKEN_COUNTS))]);
      const expected = hiddenOf(all, shape.outputs);
      const found = await runSteps(
        backend,
        wanted,
        TOKEN_COUNTS.map((count) => plainStep(count)),
      );
      for (const [index, count] of TOKEN_COUNTS.entries()) {
        const rows = hiddenOf(found[index], shape.outputs);
        const error = normalisedError(rows, expected.subarray(0, count * shape.outputs));
        expect(error, `${count} tokens, ${shape.inputs} × ${shape.outputs}`).toBeLessThan(TOLERANCE);
      }
    }
  });
});
