// Decode attention over long sequences, and over many, against `reference`: group sizes and widths, parts that end inside a
// tile, batches of long and short sequences, attributes, norms, results for a matmul. A few blocks of the cache stand for long
// sequences: tables name them again and again.

import { describe, expect, it } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import { Dice } from "../support/dice.js";
import { attentionCase, type AttentionAttributes, expectAttention, type Heads } from "./attention-case.js";
import { preparedCase } from "./attention-forms.js";
import { hiddenOf, normalisedError, plainStep, type ProgramCase, randomWeight, runSteps } from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import { describeSubjects } from "./subjects.js";

const BLOCK_TOKENS = 16;
/** Blocks that hold the beginning of every sequence, over and over. */
const REPEATED = 5;
const FILLED = REPEATED * BLOCK_TOKENS;
const CONTEXT = 5120;
/** Inputs of the tokens that fill those blocks, and of the tokens that are decoded. */
const ROWS = FILLED + 24;
const CACHE = { type: "f16", blockTokens: BLOCK_TOKENS, blocks: CONTEXT / BLOCK_TOKENS } as const;

/** Each sequence decodes one token at its position, in a block of its own. */
function decodeStep(positions: readonly number[]): StepInput {
  return {
    tokens: Int32Array.from(positions, (_, index) => FILLED + index),
    positions: Int32Array.from(positions),
    sequenceOffsets: Int32Array.from({ length: positions.length + 1 }, (_, index) => index),
    blockTables: positions.map((position, sequence) => {
      const own = Math.floor(position / BLOCK_TOKENS);
      return Int32Array.from({ length: own + 1 }, (_, block) =>
        block === own ? REPEATED + sequence : (block * 3) % REPEATED,
      );
    }),
    outputs: positions.map((_, row) => ({ row, want: { kind: "hidden" as const } })),
  };
}

function fillStep(): StepInput {
  const step = plainStep(FILLED, { blockTokens: BLOCK_TOKENS });
  return { ...step, outputs: step.outputs.slice(-1) };
}

const stepsAt = (...steps: readonly (readonly number[])[]): readonly StepInput[] => [
  fillStep(),
  ...steps.map(decodeStep),
];

/** So many that a block for each kv head of each fills the emulated device three times. */
const MANY_POSITIONS = Array.from(
  { length: 24 },
  (_, index) => [500, 0, 63, 130, 255, 64, 191][index % 7] + (index >> 3),
);
const MANY = stepsAt(
  MANY_POSITIONS,
  MANY_POSITIONS.map((position) => position + 1),
);

const SHAPES: readonly Heads[] = [
  { heads: 1, kvHeads: 1, keyWidth: 64, valueWidth: 64 },
  { heads: 8, kvHeads: 1, keyWidth: 64, valueWidth: 64 },
  { heads: 4, kvHeads: 2, keyWidth: 128, valueWidth: 128 },
  { heads: 4, kvHeads: 1, keyWidth: 128, valueWidth: 128 },
  { heads: 16, kvHeads: 1, keyWidth: 128, valueWidth: 128 },
  { heads: 2, kvHeads: 1, keyWidth: 256, valueWidth: 256 },
  { heads: 12, kvHeads: 1, keyWidth: 32, valueWidth: 96 },
  { heads: 6, kvHeads: 2, keyWidth: 80, valueWidth: 48 },
];
const FEW_SHAPES = [SHAPES[1], SHAPES[4]];

const [SMALL] = SHAPES.slice(1);
const ATTRIBUTES: readonly { readonly title: string; readonly attributes: AttentionAttributes }[] = [
  { title: "sinks", attributes: { sinks: [0.5, -3, 6] } },
  { title: "a soft-cap", attributes: { softCap: 5 } },
  { title: "a window", attributes: { window: 2001 } },
  { title: "chunks", attributes: { chunk: 2010 } },
  { title: "a temperature", attributes: { temperature: 0.1, temperatureLength: 100 } },
];
const FEW_ATTRIBUTES = [ATTRIBUTES[0], ATTRIBUTES[2]];
const MANY_ATTRIBUTES = [
  ...ATTRIBUTES.slice(0, 2),
  { title: "a window", attributes: { window: 70 } },
  ...ATTRIBUTES.slice(4),
];
const FEW_MANY_ATTRIBUTES = MANY_ATTRIBUTES.slice(0, 2);

describeSubjects((subject) => {
  const widthOf = ({ heads, valueWidth }: Heads): number => heads * valueWidth;

  it.each(subject.spread(SHAPES, FEW_SHAPES))(
    "$heads heads over $kvHeads, keys of $keyWidth, values of $valueWidth",
    async (heads) => {
      const wanted = attentionCase(heads, { ...CACHE, rotated: true }, ROWS);
      await expectAttention(subject, wanted, stepsAt([1100], [2048], [4500]), widthOf(heads));
    },
  );

  it.each(subject.spread(ATTRIBUTES, FEW_ATTRIBUTES))("$title", async ({ attributes }) => {
    const wanted = attentionCase(SMALL, CACHE, ROWS, attributes);
    await expectAttention(subject, wanted, stepsAt([2100], [2561]), widthOf(SMALL));
  });

  it.each(subject.spread([1, 2], [1]))("batches of long and short sequences, case %i", async (seed) => {
    const wanted = attentionCase(SMALL, { ...CACHE, rotated: true }, ROWS);
    const steps = stepsAt([1500, 90 * seed, 2816], [1501, 300, 2817], [4500, 0, 90 * seed, 2816, 255]);
    await expectAttention(subject, wanted, steps, widthOf(SMALL));
  });

  it.each(subject.spread(SHAPES, FEW_SHAPES))(
    "many sequences, $heads heads over $kvHeads, keys of $keyWidth, values of $valueWidth",
    async (heads) => {
      const wanted = attentionCase(heads, CACHE, ROWS);
      await expectAttention(subject, wanted, MANY, widthOf(heads));
    },
  );

  it.each(subject.spread(MANY_ATTRIBUTES, FEW_MANY_ATTRIBUTES))("many sequences and $title", async ({ attributes }) => {
    const wanted = attentionCase(SMALL, CACHE, ROWS, attributes);
    await expectAttention(subject, wanted, MANY, widthOf(SMALL));
  });

  it("norms of heads and of values", async () => {
    const heads = { heads: 8, kvHeads: 2, keyWidth: 64, valueWidth: 64 };
    const preparation = {
      heads,
      norm: "before",
      valueNorm: true,
      rotation: { rotaryWidth: 32, style: "halves", factors: true },
    } as const;
    const wanted = { ...preparedCase(preparation, "f16", ROWS), blocks: CACHE.blocks };
    await expectAttention(subject, wanted, stepsAt([1300]), widthOf(heads));
  });

  it.each([[[1700]], [MANY_POSITIONS]])("results that the next matmul quantizes, at %j", async (positions) => {
    const columns = widthOf(SMALL);
    const attention = attentionCase(SMALL, CACHE, ROWS);
    const wanted: ProgramCase = {
      ...attention,
      weights: {
        ...attention.weights,
        "out.weight": randomWeight(new Dice(7), "Q8_0", [columns, 64], 1 / Math.sqrt(columns)),
      },
      build: (graph) => {
        const { hidden } = attention.build(graph);
        return { hidden: graph.matmul(hidden, "out", { inputs: columns, outputs: 64 }) };
      },
    };
    await using backend = subject.create();
    const steps = stepsAt(positions);
    const [, expected] = await referenceSteps(wanted, steps);
    const [, found] = await runSteps(backend, wanted, steps);
    expect(normalisedError(hiddenOf(found, 64), hiddenOf(expected, 64))).toBeLessThan(1e-4);
  });

  describe("a sequence with a value that the cache cannot hold", () => {
    it("is not finite then and later, and its batch-mates are", async () => {
      const wanted = attentionCase(SMALL, CACHE, ROWS);
      const { inputs } = wanted.weights;
      const data = inputs.data.slice();
      // The last column of the input is one of the value.
      new Float32Array(data.buffer)[(FILLED + 1) * inputs.shape[0] - 1] = 1e6;
      const spoilt = { ...wanted, weights: { inputs: { ...inputs, data } } };
      await using backend = subject.create();
      const [, now, later] = await runSteps(backend, spoilt, stepsAt([1500, 1600], [1501, 1601]));
      expect(now.map(({ kind }) => kind)).toEqual(["not-finite", "hidden"]);
      expect(later.map(({ kind }) => kind)).toEqual(["not-finite", "hidden"]);
    });
  });
});
