// Small random models of any family: the family's own graph says which tensors a file has. All weights are F32, so that a peer
// computes with them exactly.

import { type GgufEntry, str } from "../../../src/gguf/entry.js";
import { ROPE_FACTORS, shapeKeys, shapeWeights } from "../../../src/cli/synth/shape-weights.js";
import type { ModelShape } from "../../../src/cli/synth/shape.js";
import { encodeTensor } from "../../../src/quant/codec.js";
import { Dice } from "../../support/dice.js";
import { byteVocabulary, type RandomModel } from "./random-model.js";

const LOGIT_SIZE = 3;
const SHARP_SIZE = 1.7;

/** A shape with small defaults; its vocabulary is one token per byte and some control tokens. */
export type FamilyShape = Partial<Omit<ModelShape, "vocabulary">> & {
  readonly architecture: string;
  readonly vocabularySize?: number;
};

/** A model of a family with seeded random weights. */
export function familyModel(seed: number, { vocabularySize = 300, ...own }: FamilyShape): RandomModel {
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
  const metadata: GgufEntry[] = [
    str("general.architecture", shape.architecture),
    ...shapeKeys(shape),
    ...byteVocabulary(vocabularySize),
  ];
  const dice = new Dice(seed);
  const tensors = shapeWeights(shape, metadata).map(({ name, shape: dimensions, role }) => {
    const elements = dimensions.reduce((total, length) => total * length, 1);
    const draw = role === "matrix" ? matrixDraw(dice, name, dimensions[0]) : vectorDraw(dice, name);
    const data = encodeTensor(
      "F32",
      Float32Array.from({ length: elements }, (_, index) => draw(index)),
    );
    return { name, type: "F32" as const, shape: dimensions, data };
  });
  return { metadata, tensors };
}

function matrixDraw(dice: Dice, name: string, inputs: number): () => number {
  const isLogits = name.startsWith("output") || name.startsWith("token_embd");
  const isSharp = /attn_q|attn_k|gate|up/.test(name);
  const size = (isLogits ? LOGIT_SIZE : isSharp ? SHARP_SIZE : 1) / Math.sqrt(inputs);
  return () => dice.bell() * size;
}

function vectorDraw(dice: Dice, name: string): (index: number) => number {
  if (name === ROPE_FACTORS) return (index) => 1 + index * dice.between(0.1, 0.2);
  if (name.endsWith(".bias") || name.includes("sinks")) return () => dice.bell() * 0.3;
  return () => dice.between(0.6, 1.4);
}
