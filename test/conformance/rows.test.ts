// Every operation that works on rows by themselves, alone and fused with its neighbours, against `reference`.

import { expect, it, type TestContext } from "vitest";
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
  unsupportedReason,
} from "./harness.js";
import { referenceSteps } from "./reference-results.js";
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

/** Heads of their own columns, with columns between; the same columns for all heads; one head. */
const JOINED = [
  { heads: 4, leftWidth: 48, rightWidth: 16, rightStride: 40, rightOffset: 24 },
  { heads: 3, leftWidth: 13, rightWidth: 7, rightStride: 0, rightOffset: 0 },
  { heads: 1, leftWidth: 512, rightWidth: 64, rightStride: 0, rightOffset: 0 },
  { heads: 5, leftWidth: 1, rightWidth: 3, rightStride: 3, rightOffset: 0 },
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

async function expectAgreement(
  subject: Subject,
  wanted: RowCase,
  tolerance = TOLERANCE,
  skip?: TestContext["skip"],
): Promise<void> {
  await using backend = subject.create();
  const reason = skip === undefined ? undefined : unsupportedReason(backend, rowCase(wanted));
  if (reason !== undefined) skip?.(reason);
  const { width, outWidth = width } = wanted;
  for (const count of [1, ROWS]) {
    const [expected] = await referenceSteps(rowCase(wanted), [plainStep(count)]);
    const [found] = await runSteps(backend, rowCase(wanted), [plainStep(count)]);
    expect(
      normalisedError(hiddenOf(found, outWidth), hiddenOf(expected, outWidth)),
      `${count} rows of ${width}`,
    ).toBeLessThan(tolerance);
  }
}

describeSubjects((subject) => {
  it.each(subject.spread([1, 3, 31, 64, 100, 2048, 8192], [3, 2048]))("norms rows of %i", async (width) => {
    const weights = { "norm.weight": randomWeight(new Dice(1), "F32", [width]) };
    await expectAgreement(subject, { width, weights, compute: (graph, input) => graph.rmsNorm(input, "norm", 1e-5) });
  });

  it.each(subject.spread<"F16" | "BF16">(["F16", "BF16"], ["F16"]))("norms with a weight of %s", async (type) => {
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

  it.each(subject.spread([32, 40, 100, 2048], [40]))("rounds activations of %i exactly", async (width) => {
    await expectAgreement(subject, { width, compute: (graph, input) => graph.quantizeActivations(input) }, 1e-30);
  });

  it.each(subject.spread([7, 64, 1000], [7]))("adds, and gates with SwiGLU, columns of rows of %i", async (half) => {
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

  it.each(subject.spread(TURNS, TURNS.slice(0, 3)))(
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

  it.for(subject.spread([1, 20, 100, 2048], [20]))(
    "norms rows of %i without a weight",
    async (groupWidth, { skip }) => {
      const width = groupWidth === 20 ? 100 : groupWidth;
      const compute: RowCase["compute"] = (graph, input) => graph.unweightedRmsNorm(input, 1e-6, groupWidth);
      await expectAgreement(subject, { width, compute }, TOLERANCE, skip);
    },
  );

  it.for(subject.spread([1, 3, 100, 2048], [3, 100]))("layer norms of rows of %i", async (width, { skip }) => {
    for (const bias of [false, true]) {
      const weights = {
        "norm.weight": randomWeight(new Dice(1), "F32", [width]),
        ...(bias ? { "norm.bias": randomWeight(new Dice(2), "F32", [width]) } : {}),
      };
      const compute: RowCase["compute"] = (graph, input) => graph.layerNorm(input, "norm", 1e-2);
      await expectAgreement(subject, { width, weights, compute }, TOLERANCE, skip);
    }
  });

  it.for(subject.spread([3, 64, 1000], [3]))("scales rows of %i", async (width, { skip }) => {
    const weights = { by: floats([1], [-0.7]) };
    await expectAgreement(subject, { width, compute: (graph, input) => graph.scale(input, 1.7) }, TOLERANCE, skip);
    const compute: RowCase["compute"] = (graph, input) => graph.scaleByTensor(graph.scale(input, 0.3), "by");
    await expectAgreement(subject, { width, weights, compute }, TOLERANCE, skip);
  });

  it.for(subject.spread<RopeStyle>(["adjacent", "halves"], ["halves"]))(
    "turns %s pairs from a column on",
    async (style, { skip }) => {
      const [heads, headWidth] = [3, 96];
      for (const [firstColumn, rotaryWidth] of [
        [64, 32],
        [10, 22],
        [1, 64],
      ]) {
        const compute: RowCase["compute"] = (graph, input) => {
          const stretches = Array.from({ length: rotaryWidth / 2 }, () => 1);
          const rope = graph.ropeTable({ ratio: Math.fround(0.8), stretches, magnitude: 1 });
          return graph.rope(input, { heads, headWidth, rotaryWidth, firstColumn, style, rope });
        };
        await expectAgreement(subject, { width: heads * headWidth, compute }, 1e-10, skip);
      }
    },
  );

  it.for(subject.spread(JOINED, JOINED.slice(0, 2)))(
    "joins $heads heads of $leftWidth and $rightWidth columns",
    async ({ heads, leftWidth, rightWidth, rightStride, rightOffset }, { skip }) => {
      const rightColumns = rightStride === 0 ? rightOffset + rightWidth : heads * rightStride;
      const compute: RowCase["compute"] = (graph, input) =>
        graph.emit("joined", {
          kind: "concat-heads",
          left: graph.columns(input, "left", 0, heads * leftWidth),
          right: graph.columns(input, "right", heads * leftWidth, rightColumns),
          heads,
          leftWidth,
          rightWidth,
          rightStride,
          rightOffset,
        });
      const width = heads * leftWidth + rightColumns;
      await expectAgreement(subject, { width, outWidth: heads * (leftWidth + rightWidth), compute }, 1e-30, skip);
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
