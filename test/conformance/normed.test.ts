// Products of a normed input, which may norm and round it themselves, against `reference` with the rounding spelt out:
// what is left is the order of additions, and a step more or less where two are all but equally near.

import { expect, it } from "vitest";
import type { GraphBuilder } from "../../src/graph/builder.js";
import type { ValueId } from "../../src/graph/operation.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { Dice } from "../support/dice.js";
import { remembered } from "../support/remembered.js";
import {
  type CaseWeight,
  floats,
  hiddenOf,
  inputTable,
  normalisedError,
  plainStep,
  type ProgramCase,
  randomWeight,
  runSteps,
} from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import { describeSubjects } from "./subjects.js";

/** Of the squared error to the squared result: less than a thousandth of it, more than one step of a long row. */
const TOLERANCE = 8e-7;
/** One token, whose matmuls may norm inside, and some, all on ways that round: both are held to one measure. */
const TOKEN_COUNTS = [1, 2, 8];
const MOST_TOKENS = Math.max(...TOKEN_COUNTS);
const EPSILON = 1e-5;

interface NormedCase {
  readonly types: readonly SupportedTypeName[];
  readonly width: number;
  readonly outputs: number;
  readonly norm?: SupportedTypeName;
  readonly gated?: boolean;
  readonly inputs?: CaseWeight;
  readonly normWeight?: CaseWeight;
}

/** Rows of one sweep and of several, whole and broken ones, in small and in large blocks of threads. */
const CASES: readonly NormedCase[] = [
  { types: ["Q4_K", "Q6_K", "Q8_0"], width: 256, outputs: 40 },
  { types: ["Q6_K"], width: 2304, outputs: 300 },
  { types: ["Q4_K", "Q4_K"], width: 1024, outputs: 64, norm: "F16", gated: true },
  { types: ["Q5_1"], width: 928, outputs: 35, norm: "BF16" },
  { types: ["Q8_0", "Q5_K"], width: 4096, outputs: 20 },
  { types: ["Q5_K"], width: 5120, outputs: 5 },
  { types: ["Q4_K"], width: 8192, outputs: 9 },
  { types: ["Q4_0"], width: 8224, outputs: 9 },
  { types: ["IQ4_XS", "Q2_K"], width: 2048, outputs: 96, gated: true },
  { types: ["TQ1_0", "NVFP4"], width: 1280, outputs: 70, gated: true },
  { types: ["TQ2_0", "MXFP4", "TQ1_0"], width: 2048, outputs: 33 },
  // So many rows that one piece of work has several of the calls it is cut into.
  { types: ["Q4_K", "Q6_K"], width: 256, outputs: 2600, gated: true },
];

const normedCase = remembered(createNormedCase);

function createNormedCase(
  { types, width, outputs, norm = "F32", gated = false, inputs, normWeight }: NormedCase,
  rounds: boolean,
): ProgramCase {
  const dice = new Dice(width + outputs);
  const matmuls = types.map((type, index): [string, CaseWeight] => [
    `product${index}.weight`,
    randomWeight(dice, type, [width, outputs], 1 / Math.sqrt(width)),
  ]);
  return {
    vocabularySize: MOST_TOKENS,
    weights: {
      inputs: inputs ?? inputTable(dice, width, MOST_TOKENS, 3),
      "norm.weight": normWeight ?? randomWeight(dice, norm, [width]),
      ...Object.fromEntries(matmuls),
      "product0.bias": inputTable(dice, outputs, 1),
      "product0.scale": floats([1], [0.37]),
    },
    build: (graph) => {
      const normed = graph.rmsNorm(graph.embed("inputs", width, MOST_TOKENS), "norm", EPSILON);
      const input = rounds ? graph.quantizeActivations(normed) : normed;
      const made = types.map((_, index) => graph.matmul(input, `product${index}`, { inputs: width, outputs }));
      return { hidden: graph.selectRows(together(graph, made, gated), "outputs") };
    },
  };
}

function together(graph: GraphBuilder, made: readonly ValueId[], gated: boolean): ValueId {
  if (gated) return graph.glu(made[0], made[1], "silu");
  return made.reduce((left, right) => graph.add(left, right));
}

const STEPS = TOKEN_COUNTS.map((count) => plainStep(count));

/** What a backend gives, which may round by itself. */
async function foundRows(
  wanted: NormedCase,
  backend: Parameters<typeof runSteps>[0],
): Promise<readonly Float32Array[]> {
  const found = await runSteps(backend, normedCase(wanted, false), STEPS);
  return found.map((rows) => hiddenOf(rows, wanted.outputs));
}

/** What `reference` gives with the rounding spelt out. */
async function expectedRows(wanted: NormedCase): Promise<readonly Float32Array[]> {
  const expected = await referenceSteps(normedCase(wanted, true), STEPS);
  return expected.map((rows) => hiddenOf(rows, wanted.outputs));
}

describeSubjects((subject) => {
  const types = new Set<SupportedTypeName>(subject.types.map(({ name }) => name));
  const known = CASES.filter((wanted) => wanted.types.every((type) => types.has(type)));

  it.each(subject.spread(known, known.slice(0, 4)))(
    "$types of $width normed columns, gated: $gated",
    async (wanted) => {
      await using backend = subject.create();
      const [expected, found] = await Promise.all([expectedRows(wanted), foundRows(wanted, backend)]);
      for (const [index, count] of TOKEN_COUNTS.entries()) {
        expect(normalisedError(found[index], expected[index]), `${count} tokens`).toBeLessThan(TOLERANCE);
      }
    },
  );

  it("keeps very small and very large rows, and zeros", async () => {
    const width = 256;
    const sizes = [0, 1e-15, 1e15];
    for (const size of sizes) {
      const inputs = inputTable(new Dice(4), width, MOST_TOKENS, size);
      const wanted: NormedCase = { types: ["Q4_K", "Q6_K", "Q8_0"], width, outputs: 40, inputs };
      await using backend = subject.create();
      const [[expected], [found]] = [await expectedRows(wanted), await foundRows(wanted, backend)];
      expect(normalisedError(found, expected), `rows of size ${size}`).toBeLessThan(TOLERANCE);
    }
  });

  it.each([
    ["row", "NaN", Number.NaN],
    ["row", "an infinity", Number.POSITIVE_INFINITY],
    ["norm", "NaN", Number.NaN],
  ] as const)("gives no numbers for a %s with %s in it", async (where, _, value) => {
    const width = 256;
    const damaged = (rows: number): CaseWeight => {
      const values = Float32Array.from({ length: rows * width }, (__, index) => Math.sin(index));
      values[100] = value;
      return floats(where === "row" ? [width, rows] : [width], values);
    };
    const wanted: NormedCase = {
      types: ["Q4_K", "Q6_K", "Q8_0"],
      width,
      outputs: 40,
      ...(where === "row" ? { inputs: damaged(MOST_TOKENS) } : { normWeight: damaged(1) }),
    };
    await using backend = subject.create();
    const [found] = await foundRows(wanted, backend);
    expect(found.every((element) => Number.isNaN(element))).toBe(true);
  });
});
