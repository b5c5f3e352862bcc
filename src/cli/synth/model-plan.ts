// A synthetic model as a plan for the GGUF writer: metadata, vocabulary, and tensors whose bytes are generated as they
// are written, so that a model of any size needs memory for one chunk. Which tensors there are, the architecture's own
// graph says.

import { detectArchitecture } from "../../architectures/registry.js";
import { f32, type GgufEntry, str, u32 } from "../../gguf/entry.js";
import { GgufMetadata } from "../../gguf/metadata.js";
import type { GgufPlan, GgufWriterTensor } from "../../gguf/writer.js";
import { GraphBuilder } from "../../graph/builder.js";
import type { WeightSpec } from "../../graph/program.js";
import { encodeTensor } from "../../quant/codec.js";
import { RandomSource } from "../../sampler/rng.js";
import { RandomWeights } from "./random-blocks.js";
import { type ModelShape, ropeDivisors } from "./shape.js";
import { fileTypeOf, matrixType, type MixName } from "./type-mix.js";
import { vocabularyEntries } from "./vocabulary.js";

/** The size of weights in trained models: sums stay near the size of their inputs, so nothing overflows. */
const WEIGHT_SIZE = 0.02;
const BIAS_SIZE = 0.1;
const QUANTIZATION_VERSION = 2;
const ROPE_FACTORS = "rope_freqs.weight";

/** What of a synthetic model can be chosen. */
interface SynthOptions {
  readonly mix: MixName;
  readonly seed: number;
  /** Called before each chunk of a tensor; an exception ends the writing. */
  readonly beforeChunk?: () => void;
}

/** The plan of a synthetic model's file. */
export function synthPlan(name: string, shape: ModelShape, options: SynthOptions): GgufPlan {
  const keys = hyperParameters(shape);
  const metadata = metadataOf(name, shape, options.mix, keys);
  return { metadata, tensors: weightsOf(shape, metadata).map(tensorWriter(shape, options)) };
}

function metadataOf(name: string, shape: ModelShape, mix: MixName, keys: readonly GgufEntry[]): GgufEntry[] {
  const { architecture } = shape;
  const fileType = fileTypeOf(mix);
  return [
    str("general.architecture", architecture),
    str("general.name", `${shape.title} shape, random weights (${name} ${mix})`),
    ...(fileType === undefined ? [] : [u32("general.file_type", fileType)]),
    u32("general.quantization_version", QUANTIZATION_VERSION),
    ...keys.map((entry) => ({ ...entry, key: `${architecture}.${entry.key}` })),
    ...vocabularyEntries(shape.vocabulary),
  ];
}

function hyperParameters(shape: ModelShape): readonly GgufEntry[] {
  const { layers, width, heads, kvHeads, feedForward, context, normEpsilon, ropeBase, vocabulary } = shape;
  const { headWidth = width / heads, valueWidth = headWidth, rotaryWidth = headWidth } = shape;
  const own = shape.keys?.(shape) ?? [];
  const replaced = new Set(own.map(({ key }) => key));
  const usual = [
    u32("block_count", layers),
    u32("context_length", context),
    u32("embedding_length", width),
    u32("feed_forward_length", feedForward),
    u32("attention.head_count", heads),
    u32("attention.head_count_kv", kvHeads),
    ...(shape.headWidth === undefined
      ? []
      : [u32("attention.key_length", headWidth), u32("attention.value_length", valueWidth)]),
    f32("attention.layer_norm_rms_epsilon", normEpsilon),
    f32("rope.freq_base", ropeBase),
    u32("rope.dimension_count", rotaryWidth),
    u32("vocab_size", vocabulary.size),
  ];
  return [...usual.filter(({ key }) => !replaced.has(key)), ...own];
}

/** The weights of the architecture's graph for this shape. */
function weightsOf(shape: ModelShape, metadata: readonly GgufEntry[]): readonly WeightSpec[] {
  const { layers, width, tied, ropeScaling, tensors = [], layerTensors, vocabulary } = shape;
  const indices = Array.from({ length: layers }, (_, layer) => layer);
  const names = [
    ...(tied ? [] : ["output.weight"]),
    ...(ropeScaling === undefined ? [] : [ROPE_FACTORS]),
    ...tensors,
    ...indices.flatMap((layer) => [
      `blk.${layer}.attn_norm.weight`,
      ...(layerTensors?.(layer) ?? []).map((tensor) => `blk.${layer}.${tensor}`),
    ]),
  ];
  const present = new Map(names.map((name) => [name, { shape: [1] }]));
  present.set("token_embd.weight", { shape: [width, vocabulary.size] });
  const { descriptor, source } = detectArchitecture(new GgufMetadata(metadata), present);
  const graph = new GraphBuilder({ fileName: source.fileName, hasTensor: (tensor) => present.has(tensor) });
  return descriptor.buildGraph(graph, descriptor.readHyperParameters(source)).weights;
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
  if (name.endsWith(".bias") || name.includes("sinks")) return drawn(-BIAS_SIZE, BIAS_SIZE);
  return drawn(0.6, 1.4);
}
