// Small random models of any family: the family's own graph says which tensors a file has. All weights are F32, so that a peer
// computes with them exactly.

import { draftHeadWeights, ROPE_FACTORS, shapeKeys, shapeWeights } from "../../../src/cli/synth/shape-weights.js";
import type { ModelShape } from "../../../src/cli/synth/shape.js";
import { type GgufEntry, str, u32 } from "../../../src/gguf/entry.js";
import { encodeTensor } from "../../../src/quant/codec.js";
import { Dice, drawFloats } from "../../support/dice.js";
import { byteVocabulary, type MadeTensor, type RandomModel } from "./random-model.js";

const LOGIT_SIZE = 3;
const SHARP_SIZE = 1.7;

/** A tensor beside those of the graph, which the graph does not use. */
export interface UnusedTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

/** A shape with small defaults; its vocabulary is one token per byte and some control tokens. */
export type FamilyShape = Partial<Omit<ModelShape, "vocabulary">> & {
  readonly architecture: string;
  readonly vocabularySize?: number;
  /** Keys that the file lacks, without the architecture's prefix. */
  readonly dropped?: readonly string[];
  /** Blocks after the last layer that only predict further tokens: copies of that layer, with tensors of their own. */
  readonly predictingLayers?: number;
  readonly unused?: readonly UnusedTensor[];
};

/** The whole shape, and the metadata of a file of it without predicting layers. */
export function familyFile(drawn: FamilyShape): {
  readonly shape: ModelShape;
  readonly metadata: readonly GgufEntry[];
} {
  const { vocabularySize = 300, dropped = [], predictingLayers: _blocks, unused: _tensors, ...own } = drawn;
  const shape: ModelShape = {
    title: "random",
    layers: 3,
    width: 64,
    heads: 4,
    kvHeads: 2,
    feedForward: 96,
    context: 256,
    normEpsilon: 1e-5,
    ropeBase: 10_000,
    tied: false,
    ...own,
    vocabulary: { kind: "bpe", size: vocabularySize, control: {}, bos: 0, eos: 0, addsBos: false },
  };
  const { architecture } = shape;
  const missing = new Set(dropped.map((key) => `${architecture}.${key}`));
  const metadata = [
    str("general.architecture", architecture),
    ...shapeKeys(shape).filter(({ key }) => !missing.has(key)),
    ...byteVocabulary(vocabularySize),
  ];
  return { shape, metadata };
}

/** A model of a family with seeded random weights. */
export function familyModel(seed: number, drawn: FamilyShape): RandomModel {
  const { predictingLayers = 0, unused = [] } = drawn;
  const { shape, metadata } = familyFile(drawn);
  const { architecture, layers } = shape;
  const dice = new Dice(seed);
  const used = shapeWeights(shape, metadata).map(({ name, shape: dimensions, role }) =>
    randomTensor(dice, name, dimensions, role),
  );
  const others = unused.map(({ name, shape: dimensions }) => randomTensor(dice, name, dimensions, "vector"));
  const predicting = Array.from({ length: predictingLayers }, (_, index) =>
    predictor(dice, used, layers, layers + index, shape.width),
  ).flat();
  return {
    metadata: predictingLayers === 0 ? metadata : withPredictors(metadata, architecture, layers, predictingLayers),
    tensors: [...used, ...others, ...predicting],
  };
}

/** A model with a draft head that can be run. */
export function draftHeadModel(seed: number, drawn: FamilyShape): RandomModel {
  const model = familyModel(seed, drawn);
  const { shape } = familyFile(drawn);
  const metadata = withPredictors(model.metadata, shape.architecture, shape.layers, 1);
  const dice = new Dice(seed + 1);
  const head = draftHeadWeights(shape, metadata).map(({ name, shape: dimensions, role }) =>
    randomTensor(dice, name, dimensions, role),
  );
  return { metadata, tensors: [...model.tensors, ...head] };
}

function withPredictors(
  metadata: readonly GgufEntry[],
  architecture: string,
  layers: number,
  count: number,
): readonly GgufEntry[] {
  const blocks = `${architecture}.block_count`;
  return [
    ...metadata.filter(({ key }) => key !== blocks),
    u32(blocks, layers + count),
    u32(`${architecture}.nextn_predict_layers`, count),
  ];
}

/** The last layer again under another number, and the tensors that only predictors have. */
function predictor(
  dice: Dice,
  tensors: readonly MadeTensor[],
  layers: number,
  block: number,
  width: number,
): readonly MadeTensor[] {
  const last = `blk.${layers - 1}.`;
  const copies = tensors
    .filter(({ name }) => name.startsWith(last))
    .map((tensor) => ({ ...tensor, name: `blk.${block}.${tensor.name.slice(last.length)}` }));
  return [
    ...copies,
    randomTensor(dice, `blk.${block}.nextn.eh_proj.weight`, [2 * width, width], "matrix"),
    ...["enorm", "hnorm", "shared_head_norm"].map((part) =>
      randomTensor(dice, `blk.${block}.nextn.${part}.weight`, [width], "vector"),
    ),
  ];
}

function randomTensor(dice: Dice, name: string, shape: readonly number[], role: "matrix" | "vector"): MadeTensor {
  const elements = shape.reduce((total, length) => total * length, 1);
  const draw = role === "matrix" ? matrixDraw(dice, name, shape[0]) : vectorDraw(dice, name);
  const values = drawFloats(elements, draw);
  return { name, type: "F32", shape, data: encodeTensor("F32", values) };
}

function matrixDraw(dice: Dice, name: string, inputs: number): () => number {
  const isLogits = name.startsWith("output") || name.startsWith("token_embd");
  const isSharp = /attn_q|attn_k|gate|up/.test(name);
  const size = (isLogits ? LOGIT_SIZE : isSharp ? SHARP_SIZE : 1) / Math.sqrt(inputs);
  return () => dice.bell() * size;
}

function vectorDraw(dice: Dice, name: string): (index: number) => number {
  if (name === ROPE_FACTORS || name.startsWith("rope_factors")) return (index) => 1 + index * dice.between(0.1, 0.2);
  if (name.endsWith(".bias") || name.includes("sinks")) return () => dice.bell() * 0.3;
  if (name.endsWith(".ssm_a")) return () => -dice.between(0.1, 2);
  if (name.includes("conv")) return () => dice.bell() * 0.6;
  return () => dice.between(0.6, 1.4);
}
