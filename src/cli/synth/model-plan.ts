// A synthetic model as a plan for the GGUF writer: metadata, vocabulary, and tensors whose bytes are generated as they
// are written, so that a model of any size needs memory for one chunk. Which tensors there are, the architecture's own
// graph says.

import { type GgufEntry, str, u32 } from "../../gguf/entry.js";
import type { GgufPlan, GgufWriterTensor } from "../../gguf/writer.js";
import type { WeightSpec } from "../../graph/program.js";
import { encodeTensor } from "../../quant/codec.js";
import { RandomSource } from "../../sampler/rng.js";
import { wrongValue } from "../option-table.js";
import { RandomWeights } from "./random-blocks.js";
import { type ModelShape, ropeDivisors } from "./shape.js";
import { draftHeadWeights, hasDraftHead, shapeKeys, ROPE_FACTORS, shapeWeights } from "./shape-weights.js";
import { fileTypeOf, matrixType, type MixName } from "./type-mix.js";
import { vocabularyEntries } from "./vocabulary.js";

/** The size of weights in trained models: sums stay near the size of their inputs, so nothing overflows. */
const WEIGHT_SIZE = 0.02;
const BIAS_SIZE = 0.1;
/** The decay rates of recurrent layers, and the taps of their convolutions. */
const DECAY_SIZE = 2;
const TAP_SIZE = 0.6;
const QUANTIZATION_VERSION = 2;

/** What of a synthetic model can be chosen. */
interface SynthOptions {
  readonly mix: MixName;
  readonly seed: number;
  /** Whether the file has a draft head (MTP) after its layers; absent: no. */
  readonly draftHead?: boolean;
  /** The chat template of the file; absent: none. */
  readonly chatTemplate?: string;
  /** Called before each chunk of a tensor; an exception ends the writing. */
  readonly beforeChunk?: () => void;
}

/** The plan of a synthetic model's file. */
export function synthPlan(name: string, shape: ModelShape, options: SynthOptions): GgufPlan {
  const metadata = metadataOf(name, shape, options);
  const writer = tensorWriter(shape, options);
  const tensors = shapeWeights(shape, metadata).map(writer);
  if (options.draftHead !== true) return { metadata, tensors };
  const counted = withDraftBlock(shape, metadata);
  if (!hasDraftHead(shape, counted))
    throw wrongValue("synth", "draft-head", "a shape whose draft heads can be run", shape.architecture);
  return { metadata: counted, tensors: [...tensors, ...draftHeadWeights(shape, counted).map(writer)] };
}

/** The same with one more block, which is the draft head. */
function withDraftBlock({ architecture, layers }: ModelShape, metadata: readonly GgufEntry[]): GgufEntry[] {
  const blocks = `${architecture}.block_count`;
  return [
    ...metadata.map((entry) => (entry.key === blocks ? u32(blocks, layers + 1) : entry)),
    u32(`${architecture}.nextn_predict_layers`, 1),
  ];
}

function metadataOf(name: string, shape: ModelShape, { mix, chatTemplate }: SynthOptions): GgufEntry[] {
  const { architecture } = shape;
  const fileType = fileTypeOf(mix);
  return [
    str("general.architecture", architecture),
    str("general.name", `${shape.title} shape, random weights (${name} ${mix})`),
    ...(fileType === undefined ? [] : [u32("general.file_type", fileType)]),
    u32("general.quantization_version", QUANTIZATION_VERSION),
    ...shapeKeys(shape),
    ...vocabularyEntries(shape.vocabulary),
    ...(chatTemplate === undefined ? [] : [str("tokenizer.chat_template", chatTemplate)]),
  ];
}

function tensorWriter(
  shape: ModelShape,
  { mix, seed, beforeChunk }: SynthOptions,
): (weight: WeightSpec) => GgufWriterTensor {
  const weights = new RandomWeights(seed);
  const numbers = new RandomSource(seed);
  return ({ name, shape: dimensions, role }) => {
    const elements = dimensions.reduce((total, length) => total * length, 1);
    if (role === "vector") {
      const data = encodeTensor("F32", Float32Array.from(vectorValues(shape, name, elements, numbers)));
      return { name, type: "F32", shape: dimensions, data };
    }
    const type = matrixType(mix, roleOf(shape, name, dimensions[0]));
    return {
      name,
      type,
      shape: dimensions,
      *data() {
        for (const chunk of weights.chunks(type, elements, WEIGHT_SIZE)) {
          beforeChunk?.();
          yield chunk;
        }
      },
    };
  };
}

function roleOf(
  { layers, heads, kvHeads, tied }: ModelShape,
  name: string,
  width: number,
): Parameters<typeof matrixType>[1] {
  const [, layer = "0", part] = /^(?:blk\.(\d+)\.)?(.*)\.weight$/.exec(name) ?? [undefined, "0", name];
  return { part, width, layer: Number(layer), layers, queryGroup: heads / kvHeads, tied };
}

function vectorValues(shape: ModelShape, name: string, count: number, numbers: RandomSource): number[] {
  const drawn = (from: number, to: number): number[] =>
    Array.from({ length: count }, () => from + (to - from) * numbers.next());
  if (name === ROPE_FACTORS) return ropeDivisors(shape).slice(0, count);
  if (name.endsWith(".ssm_a")) return drawn(-DECAY_SIZE, 0);
  if (name.includes("conv")) return drawn(-TAP_SIZE, TAP_SIZE);
  if (name.endsWith(".bias") || name.includes("sinks")) return drawn(-BIAS_SIZE, BIAS_SIZE);
  return drawn(0.6, 1.4);
}
