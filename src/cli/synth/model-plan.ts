// A synthetic model as a plan for the GGUF writer: metadata, vocabulary, and tensors whose bytes are generated as they
// are written, so that a model of any size needs memory for one chunk.

import { f32, type GgufEntry, str, u32 } from "../../gguf/entry.js";
import type { GgufPlan, GgufWriterTensor } from "../../gguf/writer.js";
import { encodeTensor } from "../../quant/codec.js";
import { RandomSource } from "../../sampler/rng.js";
import { RandomWeights } from "./random-blocks.js";
import { type ModelShape, ropeDivisors } from "./shape.js";
import { fileTypeOf, type MatrixPart, matrixType, type MixName } from "./type-mix.js";
import { vocabularyEntries } from "./vocabulary.js";

/** The size of weights in trained models: sums stay near the size of their inputs, so nothing overflows. */
const WEIGHT_SIZE = 0.02;
const BIAS_SIZE = 0.1;
const QUANTIZATION_VERSION = 2;

/** What of a synthetic model can be chosen. */
interface SynthOptions {
  readonly mix: MixName;
  readonly seed: number;
  /** Called before each chunk of a tensor; an exception ends the writing. */
  readonly beforeChunk?: () => void;
}

/** The plan of a synthetic model's file. */
export function synthPlan(name: string, shape: ModelShape, options: SynthOptions): GgufPlan {
  return { metadata: metadataOf(name, shape, options.mix), tensors: tensorsOf(shape, options) };
}

function metadataOf(name: string, shape: ModelShape, mix: MixName): GgufEntry[] {
  const { architecture, layers, width, heads, kvHeads, feedForward, context, normEpsilon, ropeBase, vocabulary } =
    shape;
  const fileType = fileTypeOf(mix);
  return [
    str("general.architecture", architecture),
    str("general.name", `${shape.title} shape, random weights (${name} ${mix})`),
    ...(fileType === undefined ? [] : [u32("general.file_type", fileType)]),
    u32("general.quantization_version", QUANTIZATION_VERSION),
    u32(`${architecture}.block_count`, layers),
    u32(`${architecture}.context_length`, context),
    u32(`${architecture}.embedding_length`, width),
    u32(`${architecture}.feed_forward_length`, feedForward),
    u32(`${architecture}.attention.head_count`, heads),
    u32(`${architecture}.attention.head_count_kv`, kvHeads),
    f32(`${architecture}.attention.layer_norm_rms_epsilon`, normEpsilon),
    f32(`${architecture}.rope.freq_base`, ropeBase),
    u32(`${architecture}.rope.dimension_count`, width / heads),
    u32(`${architecture}.vocab_size`, vocabulary.size),
    ...vocabularyEntries(vocabulary),
  ];
}

function tensorsOf(shape: ModelShape, { mix, seed, beforeChunk }: SynthOptions): GgufWriterTensor[] {
  const { layers, width, heads, kvHeads, feedForward, tied, attentionBiases, vocabulary } = shape;
  const weights = new RandomWeights(seed);
  const numbers = new RandomSource(seed);
  const kvWidth = (width / heads) * kvHeads;

  const matrix = (part: MatrixPart, inputs: number, outputs: number, layer?: number): GgufWriterTensor => {
    const type = matrixType(mix, { part, width: inputs, layer: layer ?? 0, layers, queryGroup: heads / kvHeads, tied });
    return {
      name: layer === undefined ? `${part}.weight` : `blk.${layer}.${part}.weight`,
      type,
      shape: [inputs, outputs],
      *data() {
        for (const chunk of weights.chunks(type, inputs * outputs, WEIGHT_SIZE)) {
          beforeChunk?.();
          yield chunk;
        }
      },
    };
  };
  const vector = (name: string, values: readonly number[]): GgufWriterTensor => ({
    name,
    type: "F32",
    shape: [values.length],
    data: encodeTensor("F32", Float32Array.from(values)),
  });
  const drawn = (count: number, from: number, to: number): number[] =>
    Array.from({ length: count }, () => from + (to - from) * numbers.next());
  const norm = (name: string): GgufWriterTensor => vector(`${name}.weight`, drawn(width, 0.6, 1.4));
  const biases = (block: string): GgufWriterTensor[] =>
    [["attn_q", width] as const, ["attn_k", kvWidth] as const, ["attn_v", kvWidth] as const].map(([part, count]) =>
      vector(`${block}.${part}.bias`, drawn(count, -BIAS_SIZE, BIAS_SIZE)),
    );

  const blocks = Array.from({ length: layers }, (_, layer) => [
    norm(`blk.${layer}.attn_norm`),
    matrix("attn_q", width, width, layer),
    matrix("attn_k", width, kvWidth, layer),
    matrix("attn_v", width, kvWidth, layer),
    matrix("attn_output", width, width, layer),
    ...(attentionBiases ? biases(`blk.${layer}`) : []),
    norm(`blk.${layer}.ffn_norm`),
    matrix("ffn_gate", width, feedForward, layer),
    matrix("ffn_up", width, feedForward, layer),
    matrix("ffn_down", feedForward, width, layer),
  ]);
  return [
    ...(shape.ropeScaling === undefined ? [] : [vector("rope_freqs.weight", ropeDivisors(shape))]),
    matrix("token_embd", width, vocabulary.size),
    ...blocks.flat(),
    norm("output_norm"),
    ...(tied ? [] : [matrix("output", width, vocabulary.size)]),
  ];
}
