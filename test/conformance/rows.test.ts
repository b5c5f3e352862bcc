// Every operation that works on rows by themselves, alone and fused with its neighbours, against `reference`.

import { expect, it } from "vitest";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import type { GraphBuilder } from "../../src/graph/builder.js";
import type { RopeStyle, ValueId } from "../../src/graph/operation.js";
import { Dice } from "../support/dice.js";
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
import { describeSubjects, type Subject } from "./subjects.js";

const ROWS = 21;
/** Of f32 arithmetic in another order. */
const TOLERANCE = 1e-11;

const TURNS: readonly [RopeStyle, number, boolean][] = [
  ["adjacent", 64, false],
  ["halves", 64, true],
  ["adjacent", 22, true],
  ["halves", 10, false],
  ["halves", 2, false],
];

interface RowCase {
  readonly width: number;
  readonly weights?: Readonly<Record<string, CaseWeight>>;
  readonly outWidth?: number;
  compute(graph: GraphBuilder, input: ValueId): ValueId;
}

function rowCase({ width, weights = {}, compute }: RowCase): ProgramCase {
  return {
    vocabularySize: ROWS,
    weights: { inputs: inputTable(new Dice(width), width, ROWS), ...weights },
    build: (graph) => ({ hidden: graph.selectRows(compute(graph, graph.embed("inputs", width, ROWS)), "outputs") }),
  };
}

async function expectAgreement(subject: Subject, wanted: RowCase, tolerance = TOLERANCE): Promise<void> {
  await using reference = new ReferenceBackend();
  await using backend = subject.create();
  const { width, outWidth = width } = wanted;
  for (const count of [1, ROWS]) {
    const [expected] = await runSteps(reference, rowCase(wanted), [plainStep(count)]);
    const [found] = await runSteps(backend, rowCase(wanted), [plainStep(count)]);
    expect(
      normalisedError(hiddenOf(found, outWidth), hiddenOf(expected, outWidth)),
      `${count} rows of ${width}`,
    ).toBeLessThan(tolerance);
  }
}

describeSubjects((subject) => {
  it.each(subject.cases([1, 3, 31, 64, 100, 2048, 8192], [3, 2048]))("norms rows of %i", async (width) => {
    const weights = { "norm.weight": randomWeight(new Dice(1), "F32", [width]) };
    await expectAgreement(subject, { width, weights, compute: (graph, input) => graph.rmsNorm(input, "norm", 1e-5) });
  });

  it.each(subject.cases<"F16" | "BF16">(["F16", "BF16"], ["F16"]))("norms with a weight of %s", async (type) => {
    const weights = { "norm.weight": randomWeight(new Dice(1), type, [96]) };
    await expectAgreement(subject, {
      width: 96,
      weights,
      compute: (graph, input) => graph.rmsNorm(input, "norm", 1e-5),
    });
  });

  it("norms each head by itself", async () => {
    const weights = { "norm.weight": randomWeight(new Dice(1), "F32", [20]) };
    await expectAgreement(subject, {
      width: 100,
      weights,
      compute: (graph, input) => graph.rmsNorm(input, "norm", 1e-6, 20),
    });
  });

  it.each(subject.cases([32, 40, 100, 2048], [40]))("rounds activations of %i exactly", async (width) => {
    await expectAgreement(subject, { width, compute: (graph, input) => graph.quantizeActivations(input) }, 1e-30);
  });

  it.each(subject.cases([7, 64, 1000], [7]))("adds, and gates with SwiGLU, columns of rows of %i", async (half) => {
    const width = half * 2;
    await expectAgreement(subject, {
      width,
      outWidth: half,
      compute: (graph, input) => {
        const left = graph.columns(input, "left", 0, half);
        const right = graph.columns(input, "right", half, half);
        return graph.add(graph.glu(left, right, "silu"), right);
      },
    });
  });

  it.each(subject.cases(TURNS, TURNS.slice(0, 3)))(
    "turns %s pairs of %i columns, factors: %s",
    async (style, rotaryWidth, withFactors) => {
      const heads = 3;
      const headWidth = 64;
      const pairs = rotaryWidth / 2;
      const factors = {
        factors: floats(
          [pairs],
          Array.from({ length: pairs }, (_, pair) => 1 + pair / 3),
        ),
      };
      await expectAgreement(
        subject,
        {
          width: heads * headWidth,
          weights: withFactors ? factors : {},
          compute: (graph, input) => {
            const rope = graph.ropeTable({
              ratio: Math.fround(0.87),
              stretches: Array.from({ length: pairs }, (_, pair) => 1 / (1 + pair / 7)),
              magnitude: 1.13,
            });
            const weight = graph.optionalVector("factors", pairs);
            return graph.rope(input, {
              heads,
              headWidth,
              rotaryWidth,
              style,
              rope,
              ...(weight === undefined ? {} : { factors: weight }),
            });
          },
        },
        1e-10,
      );
    },
  );

  it("computes fused groups as their parts", async () => {
    const dice = new Dice(9);
    const width = 256;
    const inner = 512;
    const matrix = (inputs: number, outputs: number): CaseWeight =>
      randomWeight(dice, "F16", [inputs, outputs], 1 / Math.sqrt(inputs));
    await expectAgreement(
      subject,
      {
        width,
        weights: {
          "norm.weight": randomWeight(dice, "F32", [width]),
          "gate.weight": matrix(width, inner),
          "gate.bias": randomWeight(dice, "F32", [inner]),
          "up.weight": matrix(width, inner),
          "down.weight": matrix(inner, width),
          "down.bias": randomWeight(dice, "F32", [width]),
        },
        compute: (graph, input) => {
          const normed = graph.rmsNorm(input, "norm", 1e-5);
          const gate = graph.matmul(normed, "gate", { inputs: width, outputs: inner });
          const up = graph.matmul(normed, "up", { inputs: width, outputs: inner });
          return graph.add(input, graph.matmul(graph.glu(gate, up, "silu"), "down", { inputs: inner, outputs: width }));
        },
      },
      1e-10,
    );
  });
});
