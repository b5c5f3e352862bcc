// Prefill attention over latent heads by the wide products of sm_90, on the emulated device, against `reference`: widths, odd and
// even numbers of tiles, tiles that are not full, several sequences, attributes, results for a matmul.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import type { GpuBackend } from "../../src/backends/gpu/backend.js";
import { KernelChoices } from "../../src/backends/gpu/lowering/kernel-choices.js";
import { createContext, lowerStep } from "../../src/backends/gpu/lowering/lowering.js";
import { isLaunch } from "../../src/backends/gpu/lowering/step-item.js";
import { attentionCase, type AttentionAttributes, type Heads } from "../conformance/attention-case.js";
import { hiddenOf, normalisedError, plainStep, runSteps } from "../conformance/harness.js";
import { LATENT_LAYERS, latentLayerCase, latentSteps } from "../conformance/latent-layer-case.js";
import { referenceSteps } from "../conformance/reference-results.js";
import { describeEmulator } from "./emulator/build.js";
import { openWideBackend } from "./pretended-device.js";
import { publishedModel } from "./toolchains/representative-models.js";

/** Of the squared error to the squared result: queries and weights are f16. */
const TOLERANCE = 1e-6;
/** Of layers whose matmuls round their inputs to f16 or 8 bits. */
const LAYER_TOLERANCE = 2e-4;
const BLOCK_TOKENS = 32;
const ROWS = 512;
const OUTPUTS = 24;

interface WideFlashCase extends Heads {
  readonly title: string;
  readonly attributes?: AttentionAttributes;
  readonly blockTokens?: number;
}

const SMALL = { heads: 2, kvHeads: 1, keyWidth: 192, valueWidth: 128 };
const CASES: readonly WideFlashCase[] = [
  { title: "two heads of 576 and 512", heads: 2, kvHeads: 1, keyWidth: 576, valueWidth: 512 },
  { title: "heads of 320 and 256 in blocks of 16", ...SMALL, keyWidth: 320, valueWidth: 256, blockTokens: 16 },
  { title: "a soft-cap and sinks", ...SMALL, attributes: { softCap: 5, sinks: [0.5, -3] }, blockTokens: 64 },
  { title: "scores that rise by more than weights have room for", ...SMALL, attributes: { scale: 0.2 } },
  { title: "keys of values alone with a window", ...SMALL, keyWidth: 128, attributes: { window: 70 } },
  {
    title: "two kv heads with chunks in blocks of two tiles",
    ...SMALL,
    kvHeads: 2,
    attributes: { chunk: 100 },
    blockTokens: 128,
  },
];

/** The last rows of a step alone. */
function lastOf(step: StepInput): StepInput {
  return { ...step, outputs: step.outputs.slice(-OUTPUTS) };
}

/** Two sequences of a step: one goes on from `first`, the other begins. */
function together(first: number, blockTokens: number): StepInput {
  const [left, right] = [plainStep(20, { first, blockTokens }), plainStep(70, { blockTokens })];
  const own = Int32Array.from(right.blockTables[0], (block) => ROWS / blockTokens - 1 - block);
  return {
    tokens: Int32Array.of(...left.tokens, ...right.tokens),
    positions: Int32Array.of(...left.positions, ...right.positions),
    sequenceOffsets: Int32Array.of(0, 20, 90),
    blockTables: [left.blockTables[0], own],
    outputs: [0, 19, 20, 21, 83, 84, 89].map((row) => ({ row, want: { kind: "hidden" } })),
  };
}

describeEmulator("wide flash attention", () => {
  let backend: GpuBackend;
  beforeAll(() => {
    backend = openWideBackend();
  });
  afterAll(async () => await backend[Symbol.asyncDispose]());

  it.each(CASES)("computes $title", async ({ attributes, blockTokens = BLOCK_TOKENS, ...heads }) => {
    const cache = { type: "f16", blockTokens, blocks: ROWS / blockTokens, rotated: true } as const;
    const wanted = attentionCase(heads, cache, ROWS, { valuesInKeys: true, ...attributes });
    const steps = [
      lastOf(plainStep(130, { blockTokens })),
      lastOf(plainStep(190, { first: 130, blockTokens })),
      together(320, blockTokens),
    ];
    const width = heads.heads * heads.valueWidth;
    const [expected, found] = [await referenceSteps(wanted, steps), await runSteps(backend, wanted, steps)];
    for (const [index, rows] of found.entries())
      expect(normalisedError(hiddenOf(rows, width), hiddenOf(expected[index], width))).toBeLessThan(TOLERANCE);
  });

  it.each(LATENT_LAYERS.slice(0, 1))("gives a layer's matmul what it takes, $title", async (layer) => {
    const wanted = latentLayerCase(layer);
    const steps = latentSteps([12]);
    const width = layer.heads * layer.valueWidth;
    const [expected, found] = [await referenceSteps(wanted, steps), await runSteps(backend, wanted, steps)];
    for (const [index, rows] of found.entries())
      expect(normalisedError(hiddenOf(rows, width), hiddenOf(expected[index], width))).toBeLessThan(LAYER_TOLERANCE);
  });
});

it("is replaced by another kernel on a card that computes it wrongly", () => {
  const { fused, weights } = publishedModel("glm4.7-flash", "Q4_K");
  const device = {
    architecture: "sm_90",
    waveSize: 32,
    multiprocessors: 132,
    sharedBytes: 232_448,
    totalBytes: 140e9,
  } as const;
  const limits = { maxTokens: 512, maxOutputs: 64, contextTokens: 512, blockTokens: 32, kvCacheType: "f16" } as const;
  const filesWith = (choices: KernelChoices): readonly string[] => {
    const context = createContext({ fused, weights, device, limits, kind: "cuda", deterministic: false, choices });
    const items = lowerStep(context, { tokens: "huge", outputs: "small", blas: false });
    return items.filter(isLaunch).map(({ file }) => file);
  };
  const choices = new KernelChoices({ deterministic: false, poor: false });
  expect(filesWith(choices)).toContain("attention/wide-flash");
  for (const careful of [0, 1]) choices.avoid({ file: "attention/wide-flash", defines: { careful } });
  expect(filesWith(choices)).toContain("attention/wide-tiled");
  expect(filesWith(choices)).not.toContain("attention/wide-flash");
});
