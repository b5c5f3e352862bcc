// Operations with recurrent states against `reference`: prompts and single tokens of several sequences in a step, states
// that are written after several tokens, read by several sequences and overwritten where they were read.

import { expect, it } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import type { GraphBuilder } from "../../src/graph/builder.js";
import type { ValueId } from "../../src/graph/operation.js";
import { Dice } from "../support/dice.js";
import { attentionCase, expectAttention } from "./attention-case.js";
import { hiddenOf, inputTable, plainStep, type ProgramCase, randomWeight, runSteps } from "./harness.js";
import {
  convCase,
  type ConvShape,
  deltaNetCase,
  type DeltaNetShape,
  expectRecurrent,
  previousRowCase,
  ROWS,
  scanCase,
  type ScanShape,
  stepOfRuns,
} from "./recurrent-case.js";
import { describeSubjects } from "./subjects.js";

const CONVS: readonly ConvShape[] = [
  { width: 100, taps: 4, bias: true, silu: true },
  { width: 300, taps: 2, bias: false, silu: true, type: "F16" },
  { width: 64, taps: 3, bias: true, silu: false, type: "BF16" },
  { width: 33, taps: 1, bias: false, silu: false },
];

const DELTA_NETS: readonly DeltaNetShape[] = [
  { keyHeads: 2, valueHeads: 4, headWidth: 64, order: "cyclic" },
  { keyHeads: 2, valueHeads: 4, headWidth: 16, order: "grouped" },
  { keyHeads: 1, valueHeads: 2, headWidth: 128, order: "grouped" },
  { keyHeads: 3, valueHeads: 3, headWidth: 20, order: "cyclic" },
  { keyHeads: 1, valueHeads: 3, headWidth: 7, order: "cyclic" },
];

/** Whose long runs a GPU computes by groups of tokens, and one whose rows are not aligned. */
const LONG_DELTA_NETS: readonly DeltaNetShape[] = [
  { keyHeads: 1, valueHeads: 2, headWidth: 64, order: "grouped" },
  { keyHeads: 2, valueHeads: 4, headWidth: 64, order: "cyclic" },
  { keyHeads: 1, valueHeads: 2, headWidth: 128, order: "cyclic" },
  { keyHeads: 1, valueHeads: 1, headWidth: 64, order: "cyclic" },
];

const SCANS: readonly ScanShape[] = [
  { heads: 4, headWidth: 32, groups: 2, stateWidth: 64 },
  { heads: 3, headWidth: 16, groups: 1, stateWidth: 128 },
  { heads: 6, headWidth: 10, groups: 3, stateWidth: 12 },
  { heads: 1, headWidth: 280, groups: 1, stateWidth: 32 },
  { heads: 1, headWidth: 16, groups: 1, stateWidth: 300 },
];

const PREVIOUS = [
  { width: 96, reads: true },
  { width: 33, reads: false },
];

/** Groups of 0 columns: no norm. */
const GATED = [
  { groupWidth: 128, type: "Q8_0", matmul: true, activation: "silu" },
  { groupWidth: 16, type: "F16", matmul: false, activation: "sigmoid" },
  { groupWidth: 0, type: "Q8_0", matmul: true, activation: "sigmoid" },
  { groupWidth: 64, type: "F16", matmul: true, activation: "relu" },
  { groupWidth: 32, type: "Q8_0", matmul: true, activation: "identity" },
] as const;
/** Of inputs that are rounded to 8 bits for their matmul. */
const GATED_TOLERANCE = 1e-4;

/** With and without whole quads. */
const CUTS = [
  { heads: 5, headWidth: 24, offset: 8, width: 12 },
  { heads: 4, headWidth: 9, offset: 2, width: 3 },
];

/** A prompt longer than a chunk, a second one that is cut short, and what follows from them. */
const STEPS: readonly StepInput[] = [
  // The states after a few tokens in the middle, and at the end.
  stepOfRuns([{ tokens: 37, first: 0, writes: { 0: 5, 1: 4, 18: 3, "-1": 0 } }]),
  // Three sequences: a new prompt, one that overwrites the state that it reads, and a fork of a state in the middle.
  stepOfRuns([
    { tokens: 19, first: 100, writes: { "-1": 1 } },
    { tokens: 1, first: 37, position: 37, read: 0, writes: { 0: 0 } },
    { tokens: 3, first: 19, position: 19, read: 3, writes: { 0: 2 } },
  ]),
  // Decoding only, with a fork: two sequences read slot 2, which stays as it is.
  stepOfRuns([
    { tokens: 1, first: 119, position: 19, read: 1, writes: { 0: 1 } },
    { tokens: 1, first: 38, position: 38, read: 0, writes: { 0: 0 } },
    { tokens: 1, first: 20, position: 20, read: 2, writes: { 0: 3 } },
    { tokens: 1, first: 60, position: 20, read: 2 },
  ]),
  // The state after one token and after two, each overwritten where it was read by a later token of the run.
  stepOfRuns([
    { tokens: 2, first: 2, position: 2, read: 4, writes: { 0: 2, 1: 4 } },
    { tokens: 20, first: 1, position: 1, read: 5, writes: { 3: 5 } },
    { tokens: 1, first: 21, position: 21, read: 3, writes: { 0: 3 } },
  ]),
  stepOfRuns([
    { tokens: 1, first: 4, position: 4, read: 4 },
    { tokens: 1, first: 5, position: 5, read: 5 },
    { tokens: 5, first: 22, position: 22, read: 3 },
  ]),
];

/** Runs that are long on a GPU: whole and broken groups of tokens, states in their middle, and short runs beside them. */
const LONG_STEPS: readonly StepInput[] = [
  stepOfRuns([{ tokens: 63, first: 0, writes: { 0: 5, 3: 4, 4: 2, 23: 3, 40: 1, "-1": 0 } }]),
  stepOfRuns([
    { tokens: 34, first: 63, position: 63, read: 0, writes: { 7: 0, "-1": 5 } },
    { tokens: 1, first: 24, position: 24, read: 3, writes: { 0: 3 } },
    { tokens: 9, first: 110, writes: { 7: 2 } },
    { tokens: 18, first: 41, position: 41, read: 1, writes: { 0: 1 } },
  ]),
  stepOfRuns([
    { tokens: 40, first: 97, position: 97, read: 5, writes: { "-1": 5 } },
    { tokens: 1, first: 71, position: 71, read: 0 },
    { tokens: 8, first: 118, position: 8, read: 2, writes: { "-1": 2 } },
    { tokens: 7, first: 5, position: 5, read: 4, writes: { 2: 4 } },
  ]),
  stepOfRuns([
    { tokens: 2, first: 137, position: 137, read: 5 },
    { tokens: 1, first: 126, position: 16, read: 2 },
    { tokens: 1, first: 8, position: 8, read: 4 },
    { tokens: 1, first: 42, position: 42, read: 1 },
  ]),
];

describeSubjects((subject) => {
  it.each(subject.spread(CONVS, CONVS.slice(0, 2)))(
    "convolves $width columns with $taps taps of $type, bias: $bias, SiLU: $silu",
    async (shape) => {
      await expectRecurrent(subject, convCase(shape), STEPS, shape.width);
    },
  );

  it.each(subject.spread(DELTA_NETS, DELTA_NETS.slice(0, 3)))(
    "delta net of $valueHeads heads of $headWidth over $keyHeads, $order",
    async (shape) => {
      await expectRecurrent(subject, deltaNetCase(shape), STEPS, shape.valueHeads * shape.headWidth);
    },
  );

  it.each(subject.spread(LONG_DELTA_NETS, LONG_DELTA_NETS))(
    "delta net of $valueHeads heads of $headWidth over $keyHeads, $order, in long runs",
    async (shape) => {
      await expectRecurrent(subject, deltaNetCase(shape), LONG_STEPS, shape.valueHeads * shape.headWidth);
    },
  );

  it.each(subject.spread(CONVS, CONVS.slice(0, 2)))(
    "convolves $width columns with $taps taps of $type in long runs",
    async (shape) => {
      await expectRecurrent(subject, convCase(shape), LONG_STEPS, shape.width);
    },
  );

  it.each(subject.spread(SCANS, SCANS.slice(0, 2)))(
    "scans $heads heads of $headWidth with states of $stateWidth in $groups groups",
    async (shape) => {
      await expectRecurrent(subject, scanCase(shape), STEPS, shape.heads * shape.headWidth);
    },
  );

  it.each(subject.spread(PREVIOUS, PREVIOUS))(
    "gives each token the row of $width before it, reads rows: $reads",
    async ({ width, reads }) => {
      await expectRecurrent(subject, previousRowCase(width, reads), STEPS, width);
    },
  );

  it.each(subject.spread([1, 20], [1]))("attends to positions from %i on", async (first) => {
    const heads = { heads: 4, kvHeads: 2, keyWidth: 32, valueWidth: 32 };
    const wanted = attentionCase(heads, { type: "f16", blockTokens: 16, blocks: 8 }, 60, { first });
    const steps = [plainStep(37), plainStep(1, { first: 37 }), plainStep(9, { first: 38 })];
    await expectAttention(subject, wanted, steps, 128);
  });

  it("gives the same bits however a sequence is cut into steps, and whoever shares them", async () => {
    await using backend = subject.create({ deterministic: true });
    const whole = stepOfRuns([{ tokens: 45, first: 0, writes: { "-1": 0 } }]);
    const parts = [
      stepOfRuns([
        { tokens: 8, first: 150 },
        { tokens: 17, first: 0, writes: { "-1": 1 } },
      ]),
      stepOfRuns([{ tokens: 1, first: 17, position: 17, read: 1, writes: { 0: 1 } }]),
      stepOfRuns([
        { tokens: 27, first: 18, position: 18, read: 1, writes: { "-1": 2 } },
        { tokens: 1, first: 150 },
      ]),
    ];
    const cases: readonly (readonly [ProgramCase, number])[] = [
      [convCase(CONVS[0]), CONVS[0].width],
      [deltaNetCase(DELTA_NETS[1]), 64],
      [scanCase(SCANS[1]), 48],
    ];
    for (const [wanted, width] of cases) {
      const [expected] = await runSteps(backend, wanted, [whole]);
      const found = await runSteps(backend, wanted, parts);
      const own = [found[0].slice(8), found[1], found[2].slice(0, 27)].flat();
      expect(hiddenOf(own, width)).toEqual(hiddenOf(expected, width));
    }
  });

  it("keeps a sequence's NaN out of the slots of others", async () => {
    await using backend = subject.create();
    const wanted = deltaNetCase(DELTA_NETS[1]);
    const { inputs } = wanted.weights;
    const data = inputs.data.slice();
    new Float32Array(data.buffer).fill(Number.NaN, 5 * inputs.shape[0], 6 * inputs.shape[0]);
    const spoilt = { ...wanted, weights: { ...wanted.weights, inputs: { ...inputs, data } } };
    const rows = await runSteps(backend, spoilt, [
      stepOfRuns([
        { tokens: 2, first: 4, writes: { "-1": 0 } },
        { tokens: 2, first: 8, writes: { "-1": 1 } },
      ]),
      // A new sequence in the spoilt slot begins with zeros.
      stepOfRuns([{ tokens: 1, first: 30, writes: { 0: 0 } }]),
      stepOfRuns([
        { tokens: 1, first: 10, position: 2, read: 1 },
        { tokens: 1, first: 31, position: 1, read: 0 },
      ]),
    ]);
    expect(rows.flat().map(({ kind }) => kind)).toEqual([
      "hidden",
      "not-finite",
      "hidden",
      "hidden",
      "hidden",
      "hidden",
      "hidden",
    ]);
  });

  it("keeps a NaN in a long run out of the tokens before it", async () => {
    await using backend = subject.create();
    const wanted = deltaNetCase(DELTA_NETS[0]);
    const { inputs } = wanted.weights;
    const data = inputs.data.slice();
    new Float32Array(data.buffer).fill(Number.NaN, 21 * inputs.shape[0], 22 * inputs.shape[0]);
    const spoilt = { ...wanted, weights: { ...wanted.weights, inputs: { ...inputs, data } } };
    const [rows, [after]] = await runSteps(backend, spoilt, [
      stepOfRuns([{ tokens: 40, first: 0, writes: { 18: 0, "-1": 1 } }]),
      stepOfRuns([{ tokens: 1, first: 30, position: 19, read: 0 }]),
    ]);
    expect(rows.map(({ kind }) => kind)).toEqual(rows.map((_, token) => (token < 21 ? "hidden" : "not-finite")));
    expect(after.kind).toBe("hidden");
  });

  it.each(subject.spread(CUTS, CUTS))(
    "cuts $width columns from $offset on out of $heads heads of $headWidth",
    async ({ heads, headWidth, offset, width }) => {
      const wanted = rowsCase(heads * headWidth, {}, (graph, input) =>
        graph.emit("cut", { kind: "head-columns", input, heads, offset, width }),
      );
      await expectRecurrent(subject, wanted, [plainStep(21)], heads * width);
    },
  );

  it.each(subject.spread(GATED, GATED.slice(0, 3)))(
    "gates norms of $groupWidth columns, before a matmul of $type: $matmul",
    async ({ groupWidth, type, matmul, activation }) => {
      const width = 2 * 128;
      const weights = {
        "norm.weight": randomWeight(new Dice(1), "F32", [Math.max(1, groupWidth)]),
        "matmul.weight": randomWeight(new Dice(2), type, [width, 96], 1 / 16),
      };
      const wanted = rowsCase(2 * width, weights, (graph, input) => {
        const [gate, value] = ["gate", "value"].map((name, index) => graph.columns(input, name, index * width, width));
        const normed = groupWidth === 0 ? value : graph.rmsNorm(value, "norm", 1e-5, groupWidth);
        const gated = graph.glu(gate, normed, activation);
        return matmul ? graph.matmul(gated, "matmul", { inputs: width, outputs: 96 }) : gated;
      });
      const steps = [plainStep(1), plainStep(21), plainStep(40)];
      await expectRecurrent(subject, wanted, steps, matmul ? 96 : width, matmul ? GATED_TOLERANCE : undefined);
    },
  );

  it.each(subject.spread([20, 200], [20]))(
    "norms groups of %i columns with weights of their own",
    async (groupWidth) => {
      const width = 3 * groupWidth;
      const weights = { norm: randomWeight(new Dice(1), "F32", [groupWidth, 3]) };
      const wanted = rowsCase(width, weights, (graph, input) => {
        const weight = graph.table("norm", [groupWidth, 3]);
        return graph.emit("norm", { kind: "rms-norm", input, weight, groupWidth, rowWeights: true, epsilon: 1e-5 });
      });
      await expectRecurrent(subject, wanted, [plainStep(21)], width);
    },
  );
});

function rowsCase(
  width: number,
  weights: ProgramCase["weights"],
  compute: (graph: GraphBuilder, input: ValueId) => ValueId,
): ProgramCase {
  return {
    vocabularySize: ROWS,
    weights: { inputs: inputTable(new Dice(width), width, ROWS), ...weights },
    build: (graph) => ({ hidden: graph.selectRows(compute(graph, graph.embed("inputs", width, ROWS)), "outputs") }),
  };
}
