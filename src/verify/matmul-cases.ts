// Matmuls as cases. Inputs are rounded before, so that what is left of a difference is the order of additions.

import type { SupportedTypeName } from "../quant/layout.js";
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
