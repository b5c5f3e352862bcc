// Operations on single rows as cases: norms, activations, sums, rotations and columns, and the choice of tokens.

import type { GraphBuilder } from "../graph/builder.js";
import type { Activation, ExpertGating, RopeStyle, ValueId } from "../graph/operation.js";
import type { SupportedTypeName } from "../quant/layout.js";
import { rotate } from "./attention-forms.js";
import { Dice } from "./dice.js";
import { type CaseWeight, floats, inputTable, type ProgramCase, randomWeight } from "./program-case.js";

/** Rows of the input table: steps of these cases have no more tokens. */
export const ROW_CASE_TOKENS = 40;
const EPSILON = 1e-5;

/** A program of one operation on rows of this width. */
function rowCase(
  width: number,
  compute: (graph: GraphBuilder, input: ValueId) => ValueId,
  weights: Readonly<Record<string, CaseWeight>> = {},
): ProgramCase {
  return {
    vocabularySize: ROW_CASE_TOKENS,
    weights: { inputs: inputTable(new Dice(width), width, ROW_CASE_TOKENS, 1.5), ...weights },
    build: (graph) => ({
      hidden: graph.selectRows(compute(graph, graph.embed("inputs", width, ROW_CASE_TOKENS)), "outputs"),
    }),
  };
}

/** A table whose rows are looked up. */
export function createEmbedCase(type: SupportedTypeName, width: number): ProgramCase {
  return {
    vocabularySize: ROW_CASE_TOKENS,
    weights: { table: randomWeight(new Dice(5), type, [width, ROW_CASE_TOKENS]) },
    build: (graph) => ({ hidden: graph.selectRows(graph.embed("table", width, ROW_CASE_TOKENS), "outputs") }),
  };
}

/** RMS norm of whole rows, or of groups of columns. */
export function createRmsNormCase(width: number, groupWidth: number): ProgramCase {
  return rowCase(width, (graph, input) => graph.rmsNorm(input, "norm", EPSILON, groupWidth), {
    "norm.weight": randomWeight(new Dice(7), "F32", [groupWidth]),
  });
}

/** Layer norm with weight and bias. */
export function createLayerNormCase(width: number): ProgramCase {
  return rowCase(width, (graph, input) => graph.layerNorm(input, "norm", EPSILON), {
    "norm.weight": randomWeight(new Dice(8), "F32", [width]),
    "norm.bias": randomWeight(new Dice(9), "F32", [width]),
  });
}

/** Multiplication by a number, or by a tensor of one element. */
export function createScaleCase(width: number, byTensor: boolean): ProgramCase {
  return rowCase(
    width,
    (graph, input) => (byTensor ? graph.scaleByTensor(input, "factor") : graph.scale(input, 1.7)),
    byTensor ? { factor: floats([1], [0.37]) } : {},
  );
}

/** Quantization of activations and back. */
export function createQuantizeCase(width: number): ProgramCase {
  return rowCase(width, (graph, input) => graph.quantizeActivations(input));
}

/** A gated linear unit of two halves of a row. */
export function createGluCase(width: number, activation: Activation): ProgramCase {
  return rowCase(2 * width, (graph, input) =>
    graph.glu(graph.columns(input, "gate", 0, width), graph.columns(input, "up", width, width), activation),
  );
}

/** The sum of two halves of a row. */
export function createAddCase(width: number): ProgramCase {
  return rowCase(2 * width, (graph, input) =>
    graph.add(graph.columns(input, "left", 0, width), graph.columns(input, "right", width, width)),
  );
}

/** Columns of heads. */
export function createHeadColumnsCase(heads: number, headWidth: number): ProgramCase {
  const columns = { heads, offset: headWidth / 4, width: headWidth / 2 };
  return rowCase(heads * headWidth, (graph, input) => graph.headColumns(input, "part", columns));
}

/** Columns of heads with columns of another value behind them. */
export function createConcatCase(heads: number, headWidth: number): ProgramCase {
  const width = heads * headWidth;
  return rowCase(2 * width, (graph, input) =>
    graph.emit("joined", {
      kind: "concat-heads",
      left: graph.columns(input, "left", 0, width),
      right: graph.columns(input, "right", width, width),
      heads,
      leftWidth: headWidth,
      rightWidth: headWidth / 2,
      rightStride: headWidth,
      rightOffset: headWidth / 2,
    }),
  );
}

/** Rotation of heads, or of some of their columns. */
export function createRopeCase(headWidth: number, rotaryWidth: number, style: RopeStyle): ProgramCase {
  const heads = 3;
  return rowCase(
    heads * headWidth,
    (graph, input) => rotate(graph, input, heads, headWidth, { rotaryWidth, style, factors: true }),
    {
      factors: floats(
        [rotaryWidth / 2],
        Array.from({ length: rotaryWidth / 2 }, (_, pair) => 1 + pair / 7),
      ),
    },
  );
}

/** A router: the chosen experts and their weights. */
export function createRouterCase(experts: number, used: number, gating: ExpertGating): ProgramCase {
  return rowCase(experts, (graph, input) =>
    graph.emit("routing", { kind: "route-experts", input, used, gating, renormalize: true, scale: 1.5 }),
  );
}

/** A feed-forward network with its norm and the residual. */
export function createNetworkCase(type: SupportedTypeName, width: number, hidden: number): ProgramCase {
  const dice = new Dice(width + hidden);
  const matrix = (inputs: number, outputs: number): CaseWeight =>
    randomWeight(dice, type, [inputs, outputs], 1 / Math.sqrt(inputs));
  const wide = { inputs: width, outputs: hidden };
  return rowCase(
    width,
    (graph, input) => {
      const normed = graph.rmsNorm(input, "norm", EPSILON);
      const gated = graph.glu(graph.matmul(normed, "gate", wide), graph.matmul(normed, "up", wide), "silu");
      return graph.add(input, graph.matmul(gated, "down", { inputs: hidden, outputs: width }));
    },
    {
      "norm.weight": randomWeight(dice, "F32", [width]),
      "gate.weight": matrix(width, hidden),
      "up.weight": matrix(width, hidden),
      "down.weight": matrix(hidden, width),
    },
  );
}

/** Logits that are rows of a table: for candidates and tokens. */
export function createLogitsCase(vocabulary: number): ProgramCase {
  return {
    vocabularySize: vocabulary,
    weights: { inputs: inputTable(new Dice(vocabulary), vocabulary, vocabulary, 2) },
    build: (graph) => {
      const hidden = graph.selectRows(graph.embed("inputs", vocabulary, vocabulary), "outputs");
      return { hidden, logits: graph.selectRows(hidden, "scored") };
    },
  };
}
