// A whole layer of latent attention, from projected queries and compressed keys to the heads' values: what GPUs compute as few
// launches, in which queries, keys and results pass from one to the next in the form that the next one takes.

import type { StepInput } from "../../src/backends/contract.js";
import { kvShapeOf } from "../../src/graph/program.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { Dice } from "../support/dice.js";
import { remembered } from "../support/remembered.js";
import { FORM_BLOCK_TOKENS, rotate } from "./attention-forms.js";
import { inputTable, plainStep, type ProgramCase, randomWeight } from "./harness.js";

export interface LatentLayer {
  readonly title: string;
  readonly heads: number;
  readonly unrotatedWidth: number;
  readonly rotaryWidth: number;
  readonly latentWidth: number;
  readonly valueWidth: number;
  readonly keyType: SupportedTypeName;
  readonly valueType: SupportedTypeName;
}

export const LATENT_LAYERS: readonly LatentLayer[] = [
  {
    title: "as in GLM-4.7-Flash",
    heads: 2,
    unrotatedWidth: 192,
    rotaryWidth: 64,
    latentWidth: 512,
    valueWidth: 256,
    keyType: "Q5_0",
    valueType: "Q4_K",
  },
  {
    title: "five bits for values",
    heads: 3,
    unrotatedWidth: 64,
    rotaryWidth: 32,
    latentWidth: 256,
    valueWidth: 40,
    keyType: "Q8_0",
    valueType: "Q5_K",
  },
  {
    title: "odd widths",
    heads: 18,
    unrotatedWidth: 32,
    rotaryWidth: 24,
    latentWidth: 96,
    valueWidth: 64,
    keyType: "Q4_0",
    valueType: "Q8_0",
  },
  {
    title: "plain floats",
    heads: 2,
    unrotatedWidth: 64,
    rotaryWidth: 16,
    latentWidth: 128,
    valueWidth: 32,
    keyType: "F16",
    valueType: "F32",
  },
];

/** Rows of the inputs: every token of `latentSteps`. */
const ROWS = 160;
/** More than one split of attention has positions. */
const PREFIX_TOKENS = 144;
const PREFIX_BLOCKS = PREFIX_TOKENS / FORM_BLOCK_TOKENS;
const MAX_SEQUENCES = 60;

export const latentLayerCase = remembered(createLatentLayerCase);

function createLatentLayerCase(layer: LatentLayer): ProgramCase {
  const { heads, unrotatedWidth, rotaryWidth, latentWidth, valueWidth } = layer;
  const [headWidth, keyWidth] = [unrotatedWidth + rotaryWidth, latentWidth + rotaryWidth];
  const width = heads * headWidth + keyWidth;
  const dice = new Dice(width);
  const matrices = (type: SupportedTypeName, inputs: number, rows: number): ReturnType<typeof randomWeight> =>
    randomWeight(dice, type, [inputs, rows, heads], 1 / Math.sqrt(inputs));
  const rotation = { rotaryWidth, style: "adjacent" } as const;
  return {
    kvCacheType: "f16",
    blockTokens: FORM_BLOCK_TOKENS,
    blocks: PREFIX_BLOCKS + MAX_SEQUENCES,
    vocabularySize: ROWS,
    kv: kvShapeOf([{ kvHeads: 1, keyWidth, valueWidth: 0 }]),
    weights: {
      inputs: inputTable(dice, width, ROWS, 1.5),
      "latent.weight": randomWeight(dice, "F32", [latentWidth], 1),
      "key.weight": matrices(layer.keyType, unrotatedWidth, latentWidth),
      "value.weight": matrices(layer.valueType, latentWidth, valueWidth),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, ROWS);
      const query = graph.columns(input, "query", 0, heads * headWidth);
      const compressed = graph.columns(input, "compressed", heads * headWidth, keyWidth);
      const latent = graph.rmsNorm(graph.columns(compressed, "latent", 0, latentWidth), "latent", 1e-5);
      const position = graph.columns(compressed, "position", latentWidth, rotaryWidth);
      const joined = { leftWidth: latentWidth, rightWidth: rotaryWidth } as const;
      const key = graph.emit("key", {
        kind: "concat-heads",
        left: latent,
        right: rotate(graph, position, 1, rotaryWidth, rotation),
        heads: 1,
        ...joined,
        rightStride: 0,
        rightOffset: 0,
      });
      graph.kvWrite(0, key);
      const absorbed = graph.groupedMatmul(query, "key", {
        inputs: unrotatedWidth,
        rows: latentWidth,
        matrices: heads,
        slots: heads,
        inputStride: headWidth,
      });
      const full = graph.emit("query", {
        kind: "concat-heads",
        left: absorbed,
        right: rotate(graph, query, heads, headWidth, { ...rotation, firstColumn: unrotatedWidth }),
        heads,
        ...joined,
        rightStride: headWidth,
        rightOffset: unrotatedWidth,
      });
      const attended = graph.attend(full, {
        layer: 0,
        heads,
        kvHeads: 1,
        keyWidth,
        valueWidth: latentWidth,
        scale: 1 / Math.sqrt(keyWidth),
        valuesInKeys: true,
      });
      const values = graph.groupedMatmul(attended, "value", {
        inputs: latentWidth,
        rows: valueWidth,
        matrices: heads,
        slots: heads,
        inputStride: latentWidth,
      });
      return { hidden: graph.selectRows(values, "outputs") };
    },
  };
}

/** A prompt, then so many sequences at a time that share it and bring a token each, over two splits of attention. */
export function latentSteps(sequences: readonly number[]): readonly StepInput[] {
  const prompt = plainStep(PREFIX_TOKENS, { blockTokens: FORM_BLOCK_TOKENS });
  return [{ ...prompt, outputs: prompt.outputs.slice(-4) }, ...sequences.map(decodingStep)];
}

function decodingStep(sequences: number): StepInput {
  const indexes = Array.from({ length: sequences }, (_, index) => index);
  const prefix = Array.from({ length: PREFIX_BLOCKS }, (_, block) => block);
  return {
    tokens: Int32Array.from(indexes, (index) => index + 7),
    positions: Int32Array.from(indexes, () => PREFIX_TOKENS),
    sequenceOffsets: Int32Array.from([...indexes, sequences]),
    blockTables: indexes.map((index) => Int32Array.from([...prefix, PREFIX_BLOCKS + index])),
    outputs: indexes.map((row) => ({ row, want: { kind: "hidden" as const } })),
  };
}
