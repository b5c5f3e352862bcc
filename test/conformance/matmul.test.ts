// Products of every type on every instruction set against `reference`, on inputs that are rounded already: what is left
// is the order of additions.

import { expect, it } from "vitest";
import { layoutByName, SUPPORTED, type SupportedTypeName } from "../../src/quant/layout.js";
import {
  createExactMatmulCase,
  createMatmulCase,
  type ExactMatmulShape,
  type MatmulShape,
} from "../../src/verify/matmul-cases.js";
import { withoutStates } from "../../src/verify/recurrent-cases.js";
import { Dice } from "../support/dice.js";
import { remembered } from "../support/remembered.js";
import { anyBlocks } from "./models/random-blocks.js";
import { hiddenOf, normalisedError, plainStep, type ProgramCase, randomWeight, runSteps } from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import { describeSubjects } from "./subjects.js";

/** Of the squared error to the squared result. */
const TOLERANCE = 1e-6;
/** One token, whole and broken groups of a few, and enough for panels with a rest. */
const TOKEN_COUNTS = [1, 2, 3, 5, 8, 9, 33];
const PLAIN: readonly SupportedTypeName[] = ["F32", "F16", "BF16"];
/** Of every family of device layouts. */
const FEW_TYPE_NAMES: readonly SupportedTypeName[] = ["Q4_K", "Q6_K", "Q8_0", "TQ1_0", "TQ2_0", "NVFP4"];
/** Types in which some bytes are never written by quantisers. */
const ANY_BLOCK_TYPES: readonly SupportedTypeName[] = ["TQ1_0", "TQ2_0", "MXFP4", "NVFP4"];
const FEW_TYPES = SUPPORTED.filter(({ name }) => FEW_TYPE_NAMES.includes(name));

const matmulCase = remembered(createMatmulCase);
const exactCase = remembered(createExactMatmulCase);

/** Of f32 arithmetic in another order. */
const EXACT_TOLERANCE = 1e-11;
/** As many as a BLAS library would compute, with broken tiles. */
const PROMPT_TOKENS = 397;
/** From one row that is compared to the next: another place in each tile, and the last. */
const OUTPUT_DISTANCE = 9;
const EXACT: readonly ExactMatmulShape[] = [
  { inputs: 160, outputs: 1 },
  { inputs: 96, outputs: 3, gated: true, bias: true },
  { inputs: 64, outputs: 4, offset: 1 },
  { inputs: 352, outputs: 16, gated: true },
  { inputs: 32, outputs: 33, offset: 3, bias: true },
  { inputs: 96, outputs: 35, gated: true, bias: true },
  { inputs: 64, outputs: 129, gated: true },
];

/** Rows of one block, of a part of a chunk, and of many chunks; outputs that fill no tile. */
function shapesOf(blockElements: number): readonly MatmulShape[] {
  const unit = Math.max(32, blockElements);
  return [
    { inputs: unit, outputs: 3 },
    { inputs: unit * 3, outputs: 70, bias: true },
    { inputs: unit === 32 ? 928 : unit * 5, outputs: 129, scale: true },
  ];
}

describeSubjects((subject) => {
  it.each(subject.spread(subject.types, FEW_TYPES))("$name products", async ({ name, blockElements }) => {
    await using backend = subject.create();
    for (const shape of subject.cases(shapesOf(blockElements), shapesOf(blockElements).slice(1, 2))) {
      const wanted = matmulCase(name, shape, Math.max(...TOKEN_COUNTS));
      const all = plainStep(Math.max(...TOKEN_COUNTS));
      const [expectedRows] = await referenceSteps(wanted, [all]);
      const expected = hiddenOf(expectedRows, shape.outputs);
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

  it.each(subject.spread(EXACT, EXACT))(
    "$outputs rows of F32 × $inputs beside recurrent states, twice: $gated",
    async (shape) => {
      await using backend = subject.create();
      const wanted = exactCase(shape, PROMPT_TOKENS);
      const prompt = plainStep(PROMPT_TOKENS);
      const outputs = prompt.outputs.filter(({ row }) => row % OUTPUT_DISTANCE === 0);
      const step = withoutStates({ ...prompt, outputs });
      const [expected] = await referenceSteps(wanted, [step]);
      const [found] = await runSteps(backend, wanted, [step]);
      const error = normalisedError(hiddenOf(found, shape.outputs), hiddenOf(expected, shape.outputs));
      expect(error).toBeLessThan(EXACT_TOLERANCE);
    },
  );

  it("multiplies plain floats of odd widths", async () => {
    await using backend = subject.create();
    for (const type of subject.cases(PLAIN, ["F16"])) {
      for (const inputs of subject.cases([1, 3, 17, 100, 257], [17, 100])) {
        const wanted = matmulCase(type, { inputs, outputs: 35, bias: true }, 12);
        for (const count of [1, 4, 12]) {
          const [[expected], [found]] = await Promise.all([
            referenceSteps(wanted, [plainStep(count)]),
            runSteps(backend, wanted, [plainStep(count)]),
          ]);
          expect(
            normalisedError(hiddenOf(found, 35), hiddenOf(expected, 35)),
            `${type}, ${inputs} wide, ${count} tokens`,
          ).toBeLessThan(TOLERANCE);
        }
      }
    }
  });

  it.each(subject.spread(subject.types, FEW_TYPES))("$name rows looked up exactly", async ({ name, blockElements }) => {
    const width = Math.max(64, blockElements * 2);
    const wanted: ProgramCase = {
      vocabularySize: 12,
      weights: { table: randomWeight(new Dice(5), name, [width, 12]) },
      build: (graph) => ({ hidden: graph.selectRows(graph.embed("table", width, 12), "outputs") }),
    };
    await using backend = subject.create();
    const [expected] = await referenceSteps(wanted, [plainStep(12)]);
    const [found] = await runSteps(backend, wanted, [plainStep(12)]);
    expect(hiddenOf(found, width)).toEqual(hiddenOf(expected, width));
  });

  it.each(subject.spread(ANY_BLOCK_TYPES, ANY_BLOCK_TYPES))("%s rows of any bytes looked up exactly", async (type) => {
    const { blockElements } = layoutByName(type);
    const [width, rows] = [512, 12];
    const data = anyBlocks(new Dice(8), type, (width * rows) / blockElements);
    const wanted: ProgramCase = {
      vocabularySize: rows,
      weights: { table: { type, shape: [width, rows], data } },
      build: (graph) => ({ hidden: graph.selectRows(graph.embed("table", width, rows), "outputs") }),
    };
    await using backend = subject.create();
    const [[expected], [found]] = await Promise.all([
      referenceSteps(wanted, [plainStep(rows)]),
      runSteps(backend, wanted, [plainStep(rows)]),
    ]);
    expect(hiddenOf(found, width)).toEqual(hiddenOf(expected, width));
  });
});
