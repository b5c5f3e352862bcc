// Prefill attention over latent heads by the wide products of sm_90, on the emulated device, against `reference`: widths, odd and
// even numbers of tiles, tiles that are not full, several sequences, attributes, results for a matmul.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { GpuBackend } from "../../src/backends/gpu/backend.js";
import { KernelChoices } from "../../src/backends/gpu/lowering/kernel-choices.js";
import { createContext, lowerStep } from "../../src/backends/gpu/lowering/lowering.js";
import { isLaunch } from "../../src/backends/gpu/lowering/step-item.js";
import { attentionCase, type AttentionAttributes, type Heads } from "../conformance/attention-case.js";
import { LATENT_LAYERS, latentLayerCase, latentSteps } from "../conformance/latent-layer-case.js";
import { describeEmulator } from "./emulator/build.js";
import { expectReferenceResults, flashSteps } from "./flash-steps.js";
import { openWideBackend } from "./pretended-device.js";
import { publishedModel } from "./toolchains/representative-models.js";

/** Of the squared error to the squared result: queries and weights are f16. */
const TOLERANCE = 1e-6;
/** Of layers whose matmuls round their inputs to f16 or 8 bits. */
const LAYER_TOLERANCE = 2e-4;
const BLOCK_TOKENS = 32;
const ROWS = 512;

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

describeEmulator("wide flash attention", () => {
  let backend: GpuBackend;
  beforeAll(() => {
    backend = openWideBackend();
  });
  afterAll(async () => await backend[Symbol.asyncDispose]());

  it.each(CASES)("computes $title", async ({ attributes, blockTokens = BLOCK_TOKENS, ...heads }) => {
    const cache = { type: "f16", blockTokens, blocks: ROWS / blockTokens, rotated: true } as const;
    const wanted = attentionCase(heads, cache, ROWS, { valuesInKeys: true, ...attributes });
    const steps = flashSteps({ rows: ROWS, blockTokens, continuation: 190 });
    await expectReferenceResults(backend, wanted, steps, {
      width: heads.heads * heads.valueWidth,
      tolerance: TOLERANCE,
    });
  });

  it.each(LATENT_LAYERS.slice(0, 1))("gives a layer's matmul what it takes, $title", async (layer) => {
    const wanted = latentLayerCase(layer);
    const steps = latentSteps([12]);
    await expectReferenceResults(backend, wanted, steps, {
      width: layer.heads * layer.valueWidth,
      tolerance: LAYER_TOLERANCE,
    });
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
