// Mixtures of experts in batches that are sorted by expert, against `reference`: token counts around the tiles of a GPU, more
// slots than are sorted at a time, experts with several tiles and with none.

import { expect, it } from "vitest";
import {
  type GroupedCase,
  groupedCase,
  MIXTURE_WIDTH,
  type MixtureCase,
  mixtureCase,
  runBoth,
} from "./experts-case.js";
import { hiddenOf, normalisedError } from "./harness.js";
import { describeSubjects } from "./subjects.js";

/** Of the squared error to the squared result, as in experts.test.ts. */
const MATMUL_TOLERANCE = 1e-6;
const NETWORK_TOLERANCE = 1e-4;
/** One more than a GEMV takes, a tile, one more, and several tiles of all sizes. */
const TOKEN_COUNTS = [9, 16, 17, 31, 64, 100, 300];

const FEW_EXPERTS: GroupedCase = { type: "Q4_K", inputs: 256, rows: 150, matrices: 4, slots: 2, choice: "any" };

const GROUPED: readonly (GroupedCase & { readonly title: string })[] = [
  { ...FEW_EXPERTS, title: "few experts" },
  { ...FEW_EXPERTS, title: "two experts for all tokens", choice: "same", weighted: true },
  { ...FEW_EXPERTS, title: "odd widths", type: "MXFP4", inputs: 224, rows: 45, bias: true },
  { ...FEW_EXPERTS, title: "many experts", type: "Q8_0", inputs: 96, rows: 17, matrices: 200, slots: 8, scale: true },
  { ...FEW_EXPERTS, title: "wide tokens", type: "Q8_0", inputs: 64, rows: 33, matrices: 12, slots: 12, weighted: true },
  { title: "heads", type: "Q8_0", inputs: 64, rows: 130, matrices: 3, slots: 3, inputStride: 96 },
  // Inputs are quantized in blocks that begin with a head, so only plain weights take these exactly on every backend.
  { title: "heads at odd columns", type: "F32", inputs: 64, rows: 130, matrices: 3, slots: 3, inputStride: 72 },
];

const MIXTURES: readonly (MixtureCase & { readonly title: string })[] = [
  { title: "Q4_K with SiLU", type: "Q4_K", activation: "silu", experts: 4, used: 2 },
  { title: "BF16 with GELU", type: "BF16", activation: "gelu", experts: 3, used: 2 },
  { title: "MXFP4 as in gpt-oss", type: "MXFP4", activation: "swiglu-oai", experts: 6, used: 4, biases: true },
  { title: "NVFP4 with scales", type: "NVFP4", activation: "silu", experts: 5, used: 2, scales: true },
  { title: "Q5_K, gates and ups in one tensor", type: "Q5_K", activation: "gelu", experts: 3, used: 1, fused: true },
  { title: "Q6_K with weighed inputs", type: "Q6_K", activation: "silu", experts: 4, used: 1, weighsInput: true },
];

describeSubjects((subject) => {
  const grouped = GROUPED.filter(({ type }) => subject.types.some(({ name }) => name === type));
  it.for(subject.spread(grouped, [grouped[1], grouped[3]]))("sorted by expert: $title", async (wanted, { skip }) => {
    const counts = subject.cases(TOKEN_COUNTS, [17, 300]);
    const width = wanted.slots * wanted.rows;
    for (const { count, expected, found } of await runBoth(subject, groupedCase(wanted, 300), counts, skip)) {
      const error = normalisedError(hiddenOf(found, width), hiddenOf(expected, width));
      expect(error, `${count} tokens`).toBeLessThan(MATMUL_TOLERANCE);
    }
  });

  const mixtures = MIXTURES.filter(({ type }) => subject.types.some(({ name }) => name === type));
  it.for(subject.spread(mixtures, [mixtures[0], mixtures[2]]))(
    "network of sorted experts: $title",
    async (wanted, { skip }) => {
      const counts = subject.cases(TOKEN_COUNTS, [16, 100]);
      for (const { count, expected, found } of await runBoth(subject, mixtureCase(wanted, 300), counts, skip)) {
        const error = normalisedError(hiddenOf(found, MIXTURE_WIDTH), hiddenOf(expected, MIXTURE_WIDTH));
        expect(error, `${count} tokens`).toBeLessThan(NETWORK_TOLERANCE);
      }
    },
  );
});
