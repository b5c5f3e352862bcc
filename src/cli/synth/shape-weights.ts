// The keys and the weights of a model shape: an architecture's own graph says which tensors a file has.

import { buildDraftHead, buildWithDraftHead } from "../../architectures/draft-head.js";
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
  return shapeGraphs(shape, metadata).trunk();
}

/** The weights of the shape's draft head (MTP), besides those of its layers; `metadata` counts the head's block. */
export function draftHeadWeights(shape: ModelShape, metadata: readonly GgufEntry[]): readonly WeightSpec[] {
  const { trunk, draftHead } = shapeGraphs(shape, metadata);
  const known = new Set(trunk().weights.map(({ name }) => name));
  return draftHead().weights.filter(({ name }) => !known.has(name));
}

/** Whether a draft head of this shape's architecture can be run. */
export function hasDraftHead(shape: ModelShape, metadata: readonly GgufEntry[]): boolean {
  return shapeGraphs(shape, metadata).hasDraftHead;
}

interface ShapeGraphs {
  readonly hasDraftHead: boolean;
  readonly trunk: () => Program;
  readonly draftHead: () => Program;
}

function shapeGraphs(shape: ModelShape, metadata: readonly GgufEntry[]): ShapeGraphs {
  const { layers, width, tied, ropeScaling, tensors = [], layerTensors, vocabulary } = shape;
  // One more than the layers: the block of a draft head.
  const indices = Array.from({ length: layers + 1 }, (_, layer) => layer);
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
  const draftTensors = ["eh_proj", "shared_head_norm"].map((part) => `blk.${layers}.nextn.${part}.weight`);
  for (const name of draftTensors) present.set(name, { shape: [1] });
  const { descriptor, source } = detectArchitecture(new GgufMetadata(metadata), present);
  const newGraph = (): GraphBuilder =>
    new GraphBuilder({ fileName: source.fileName, hasTensor: (tensor) => present.has(tensor) });
  const parameters = descriptor.readHyperParameters(source);
  return {
    hasDraftHead: parameters.draftHead !== undefined,
    trunk: () => descriptor.buildGraph(newGraph(), parameters),
    draftHead: () => buildDraftHead(newGraph(), parameters, buildWithDraftHead(newGraph(), parameters)),
  };
}
