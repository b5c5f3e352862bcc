// Matmuls as cases. Inputs are rounded before, so that what is left of a difference is the order of additions.

import type { SupportedTypeName } from "../quant/layout.js";
import { kvShapeOf } from "../graph/program.js";
import { Dice } from "./dice.js";
import { isPlainType } from "./expert-cases.js";
import { floats, inputTable, type ProgramCase, randomWeight } from "./program-case.js";

/** A matrix and what belongs to its matmul. */
export interface MatmulShape {
  readonly inputs: number;
  readonly outputs: number;
  readonly bias?: boolean;
  readonly scale?: boolean;
}

/** A matmul on inputs that are quantized already, if its weights are. */
export function createMatmulCase(
  type: SupportedTypeName,
  { inputs, outputs, bias = false, scale = false }: MatmulShape,
  tokens: number,
): ProgramCase {
  const dice = new Dice(inputs * 7 + outputs);
  const rounded = !isPlainType(type);
  return {
    vocabularySize: tokens,
    weights: {
      inputs: inputTable(dice, inputs, tokens),
      "matrix.weight": randomWeight(dice, type, [inputs, outputs], 1 / Math.sqrt(inputs)),
      ...(bias ? { "matrix.bias": inputTable(dice, outputs, 1) } : {}),
      ...(scale ? { "matrix.scale": floats([1], [0.37]) } : {}),
    },
    build: (graph) => {
      const table = graph.embed("inputs", inputs, tokens);
      const input = rounded ? graph.quantizeActivations(table) : table;
      return { hidden: graph.selectRows(graph.matmul(input, "matrix", { inputs, outputs }), "outputs") };
    },
  };
}

/** Matmuls with F32 weights beside recurrent states. */
export interface ExactMatmulShape {
  readonly inputs: number;
  readonly outputs: number;
  /** Two matrices with the same input, whose results a gated linear unit joins. */
  readonly gated?: boolean;
  /** Columns before the input in its rows. */
  readonly offset?: number;
  readonly bias?: boolean;
}

/** Matmuls of a program with recurrent states, which keep the precision of f32. */
export function createExactMatmulCase(
  { inputs, outputs, gated = false, offset = 0, bias = false }: ExactMatmulShape,
  tokens: number,
): ProgramCase {
  const dice = new Dice(inputs * 5 + outputs);
  const names = gated ? ["first", "second"] : ["first"];
  return {
    vocabularySize: tokens,
    kv: kvShapeOf([], [1]),
    stateSlots: 1,
    weights: {
      inputs: inputTable(dice, offset + inputs, tokens),
      ...Object.fromEntries(
        names.flatMap((name) => [
          [`${name}.weight`, randomWeight(dice, "F32", [inputs, outputs], 1 / Math.sqrt(inputs))],
          ...(bias ? [[`${name}.bias`, inputTable(dice, outputs, 1)]] : []),
        ]),
      ),
    },
    build: (graph) => {
      const table = graph.embed("inputs", offset + inputs, tokens);
      const input = offset === 0 ? table : graph.columns(table, "input", offset, inputs);
      const results = names.map((name) => graph.matmul(input, name, { inputs, outputs }));
      const out = gated ? graph.glu(results[0], results[1], "silu") : results[0];
      return { hidden: graph.selectRows(out, "outputs") };
    },
  };
}
