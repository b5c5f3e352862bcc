// Grouped matmuls by the wide products of sm_90, on the emulated device.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { GpuBackend } from "../../src/backends/gpu/backend.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import {
  type GroupedCase,
  groupedCase,
  MIXTURE_WIDTH,
  type MixtureCase,
  mixtureCase,
} from "../conformance/experts-case.js";
import { hiddenOf, normalisedError, plainStep, type ProgramCase, runSteps } from "../conformance/harness.js";
import { LATENT_LAYERS, latentLayerCase, latentSteps } from "../conformance/latent-layer-case.js";
import { describeEmulator } from "./emulator/build.js";
import { openWideBackend } from "./pretended-device.js";

/** Of the squared error to the squared result, as in test/conformance/experts.test.ts. */
const MATMUL_TOLERANCE = 1e-6;
const NETWORK_TOLERANCE = 1e-4;
/** Of 4 experts, of which 2 are used: enough for tiles of 64, of which some are full and some are not. */
const TOKENS = 90;
/** Of heads, which are all in one tile. */
const HEAD_TOKENS = 60;
const OUTPUTS = 40;

const CASE: GroupedCase = { type: "Q4_K", inputs: 512, rows: 150, matrices: 4, slots: 2, choice: "any" };

const GROUPED: readonly (GroupedCase & { readonly title: string })[] = [
  { ...CASE, title: "Q4_K", weighted: true },
  { ...CASE, title: "Q5_K, two experts for all tokens", type: "Q5_K", choice: "same", bias: true },
  { ...CASE, title: "MXFP4 of odd widths", type: "MXFP4", inputs: 224, rows: 45, scale: true },
  { ...CASE, title: "Q8_0 with an input for each slot", type: "Q8_0", inputs: 96, inputStride: 104 },
  { title: "heads", type: "Q8_0", inputs: 192, rows: 130, matrices: 3, slots: 3, inputStride: 256 },
];

const MIXTURE: MixtureCase = { type: "Q4_K", downType: "Q6_K", activation: "silu", experts: 4, used: 2 };

describeEmulator("wide products", () => {
  let backend: GpuBackend;
  beforeAll(() => {
    backend = openWideBackend();
  });
  afterAll(async () => await backend[Symbol.asyncDispose]());

  async function errorOf(wanted: ProgramCase, width: number, tokens = TOKENS): Promise<number> {
    await using reference = new ReferenceBackend();
    const all = plainStep(tokens);
    const step = { ...all, outputs: all.outputs.filter(({ row }) => row % 2 === 0).slice(0, OUTPUTS) };
    const [[expected], [found]] = await Promise.all([
      runSteps(reference, wanted, [step]),
      runSteps(backend, wanted, [step]),
    ]);
    return normalisedError(hiddenOf(found, width), hiddenOf(expected, width));
  }

  it.each([
    { tokens: 12, title: "tiles of 16" },
    { tokens: 40, title: "tiles of 32" },
  ])("leave $title to the matrix units of warps", async ({ tokens }) => {
    const wanted: GroupedCase = { ...CASE, inputs: 1280, weighted: true };
    const error = await errorOf(groupedCase(wanted, TOKENS), wanted.slots * wanted.rows, tokens);
    expect(error).toBeLessThan(MATMUL_TOLERANCE);
  });

  it.each(GROUPED)("multiply $title", async (wanted) => {
    const tokens = wanted.choice === undefined ? HEAD_TOKENS : TOKENS;
    const error = await errorOf(groupedCase(wanted, TOKENS), wanted.slots * wanted.rows, tokens);
    expect(error).toBeLessThan(MATMUL_TOLERANCE);
  });

  it.each(LATENT_LAYERS.slice(1, 2))("take the heads of latent attention as they were left: $title", async (layer) => {
    await using reference = new ReferenceBackend();
    const [wanted, steps, width] = [latentLayerCase(layer), latentSteps([40]), layer.heads * layer.valueWidth];
    const [expected, found] = await Promise.all([runSteps(reference, wanted, steps), runSteps(backend, wanted, steps)]);
    for (const [index, rows] of found.entries())
      expect(normalisedError(hiddenOf(rows, width), hiddenOf(expected[index], width))).toBeLessThan(MATMUL_TOLERANCE);
  });

  it("compute a network of experts", async () => {
    expect(await errorOf(mixtureCase(MIXTURE, TOKENS), MIXTURE_WIDTH)).toBeLessThan(NETWORK_TOLERANCE);
  });
});
