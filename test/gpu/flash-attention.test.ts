// Prefill attention by the wide products of sm_90, on the emulated device, against `reference`: widths, odd groups of heads,
// tiles that are not full, several sequences, attributes, results for a matmul.

import { afterAll, beforeAll, it } from "vitest";
import type { GpuBackend } from "../../src/backends/gpu/backend.js";
import { attentionCase, type AttentionAttributes, type Heads } from "../conformance/attention-case.js";
import { describeEmulator } from "./emulator/build.js";
import { expectReferenceResults, flashSteps } from "./flash-steps.js";
import { openWideBackend } from "./pretended-device.js";

/** Of the squared error to the squared result: queries and weights are f16. */
const TOLERANCE = 1e-6;
const BLOCK_TOKENS = 32;
const BLOCKS = 12;
const ROWS = BLOCKS * BLOCK_TOKENS;

interface FlashCase extends Heads {
  readonly title: string;
  readonly attributes?: AttentionAttributes;
  readonly blockTokens?: number;
}

const NARROW = { heads: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64 };
const CASES: readonly FlashCase[] = [
  { title: "four heads of 128", heads: 4, kvHeads: 1, keyWidth: 128, valueWidth: 128 },
  {
    title: "a head of 256 with a soft-cap",
    heads: 1,
    kvHeads: 1,
    keyWidth: 256,
    valueWidth: 256,
    attributes: { softCap: 5 },
  },
  { title: "three heads of 64 with sinks", ...NARROW, heads: 3, kvHeads: 1, attributes: { sinks: [0.5, -3, 6] } },
  { title: "a window", ...NARROW, attributes: { window: 70 } },
  { title: "chunks in blocks of a tile and more", ...NARROW, attributes: { chunk: 100 }, blockTokens: 128 },
];

describeEmulator("flash attention", () => {
  let backend: GpuBackend;
  beforeAll(() => {
    backend = openWideBackend();
  });
  afterAll(async () => await backend[Symbol.asyncDispose]());

  it.each(CASES)("computes $title", async ({ attributes, blockTokens = BLOCK_TOKENS, ...heads }) => {
    const cache = { type: "f16", blockTokens, blocks: ROWS / blockTokens, rotated: true } as const;
    const wanted = attentionCase(heads, cache, ROWS, attributes);
    const steps = flashSteps({ rows: ROWS, blockTokens, continuation: 100 });
    await expectReferenceResults(backend, wanted, steps, {
      width: heads.heads * heads.valueWidth,
      tolerance: TOLERANCE,
    });
  });
});
