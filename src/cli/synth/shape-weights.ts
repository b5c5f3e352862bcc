// The keys and the weights of a model shape: an architecture's own graph says which tensors a file has.

import { detectArchitecture } from "../../architectures/registry.js";
import { f32, type GgufEntry, u32 } from "../../gguf/entry.js";
import { GgufMetadata } from "../../gguf/metadata.js";
import { GraphBuilder } from "../../graph/builder.js";
import type { Program, WeightSpec } from "../../graph/program.js";
import type { ModelShape } from "./shape.js";

/** The tensor with per-pair divisors of the rope frequencies. */
export const ROPE_FACTORS = "rope_freqs.weight";

/** The hyper-parameters of a shape, under its architecture's prefix. */
export function shapeKeys(shape: ModelShape): readonly GgufEntry[] {
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
  return [...usual.filter(({ key }) => !replaced.has(key)), ...own].map((entry) => ({
    ...entry,
    key: `${shape.architecture}.${entry.key}`,
  }));
}

/** The weights of the architecture's graph for this shape; `metadata` names the architecture and has the shape's keys. */
export function shapeWeights(shape: ModelShape, metadata: readonly GgufEntry[]): readonly WeightSpec[] {
  return shapeProgram(shape, metadata).weights;
}

/** The architecture's graph for this shape. */
export function shapeProgram(shape: ModelShape, metadata: readonly GgufEntry[]): Program {
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
  return descriptor.buildGraph(graph, descriptor.readHyperParameters(source));
}
