// DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash: multi-head latent attention, dense layers first, then experts in groups with a shared
// expert. Files of older converters have keys and values in one tensor and no keys for latent widths.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { afterLeadingDense, type ExpertTraits, expertsOrDense, sharedByCount } from "../experts.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import {
  attentionFactor,
  FIRST_DRAFT_POSITION,
  MAX_WIDTH,
  readDecoderParameters,
  readDraftBlock,
  readVocabularySize,
  yarnMagnitude,
} from "../hyper-parameters.js";
import type { AttentionSpec, AttentionTemperature, LatentAttentionSpec, RopeSpec } from "../layer.js";

const traits: DecoderTraits = {
  ropeStyle: "adjacent",
  sectionedRopeStyle: "adjacent",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const experts: ExpertTraits = {
  widthKey: "expert_feed_forward_length",
  gating: "softmax",
  gatingKey: true,
  renormalize: "key",
  weightScaleKey: true,
  weighsInput: false,
  shared: sharedByCount,
};

/** GLM-4.7-Flash, recognised by its vocabulary, does not state that its router has a sigmoid. */
const SIGMOID_VOCABULARY = 154_880;

/** How much YaRN scales scores: by the file's own multiplier, or by the usual one. */
export type StretchedScores = "stated" | "usual";

/** The hyper-parameters of a model of this graph. */
export function readLatentParameters(source: ModelSource, stretch: StretchedScores): HyperParameters {
  const reader = new HyperParameterReader(source);
  const own: ExpertTraits =
    readVocabularySize(source) === SIGMOID_VOCABULARY ? { ...experts, gating: "sigmoid" } : experts;
  const parameters = readDecoderParameters(source, traits, expertsOrDense(own, afterLeadingDense));
  const [{ mixer: first }] = parameters.layers;
  const heads = Math.max(...parameters.layers.map(({ mixer }) => mixer.heads));
  const latent = readLatentAttention(source, reader, { ...first, heads }, stretch);
  const layers = parameters.layers.map(({ mixer, ...layer }) => ({
    ...layer,
    mixer: { ...latent, heads: mixer.heads },
  }));
  const block = latent.absorbed ? readDraftBlock(source, reader) : undefined;
  if (block === undefined) return { ...parameters, layers };
  const { mixer, ...rest } = layers[layers.length - 1];
  const layer = { ...rest, mixer: { ...mixer, first: FIRST_DRAFT_POSITION } };
  return { ...parameters, layers, draftHead: { block, layer, norm: "rms", normEpsilon: parameters.normEpsilon } };
}

function readLatentAttention(
  source: ModelSource,
  reader: HyperParameterReader,
  { heads, rope, keyWidth: cachedWidth, valueWidth: cachedValueWidth }: AttentionSpec,
  stretch: StretchedScores,
): LatentAttentionSpec {
  if (rope === undefined) throw new TypeError("this family rotates");
  const latentWidth = reader.count("attention.kv_lora_rank", MAX_WIDTH);
  const absorbed = source.tensors.has(source.fileName("blk.0.attn_k_b.weight"));
  const keyWidth = reader.optionalCount("attention.key_length_mla", MAX_WIDTH) ?? cachedWidth;
  const valueWidth = reader.optionalCount("attention.value_length_mla", MAX_WIDTH) ?? cachedValueWidth;
  const unrotatedWidth = keyWidth - rope.rotaryWidth;
  if (unrotatedWidth < 1)
    reader.refuse("rope.dimension_count", `less than ${keyWidth} (the width of a key)`, String(rope.rotaryWidth));
  if (heads * Math.max(keyWidth, valueWidth, latentWidth + rope.rotaryWidth) > MAX_WIDTH)
    reader.refuse("attention.kv_lora_rank", `heads × width of at most ${MAX_WIDTH}`, `${heads} × ${latentWidth}`);
  // Some files of the smallest model state a rank and have no latent queries.
  const hasQueryLatent =
    (reader.optionalNonNegative("attention.q_lora_rank") ?? 0) > 0 &&
    (!source.tensors.has(source.fileName("blk.0.attn_q.weight")) ||
      source.tensors.has(source.fileName("blk.0.attn_q_a.weight")));
  const temperature = readTemperature(reader);
  return {
    kind: "latent-attention",
    heads,
    ...(hasQueryLatent ? { queryLatentWidth: reader.count("attention.q_lora_rank", MAX_WIDTH) } : {}),
    latentWidth,
    unrotatedWidth,
    valueWidth,
    ...readScale(reader, rope, keyWidth, stretch),
    ...(temperature === undefined ? {} : { temperature }),
    absorbed,
  };
}

/**
 * Scores grow with the scaling of the context. With YaRN and the key that says by how much, DeepSeek's rotated values do
 * not grow; Mistral's do by the rest.
 */
function readScale(
  reader: HyperParameterReader,
  rope: RopeSpec,
  keyWidth: number,
  stretch: StretchedScores,
): Pick<LatentAttentionSpec, "rope" | "scale"> {
  const factor = attentionFactor(reader);
  const { kind, factor: context } = rope.scaling;
  // The file has a tenth of the multiplier.
  const stated = yarnMagnitude(context, reader.optionalNonNegative("rope.scaling.yarn_log_multiplier") ?? 0);
  const usual = yarnMagnitude(context);
  const scale = (growth: number): number => (factor * growth) ** 2 / Math.sqrt(keyWidth);
  if (kind !== "yarn" || stated === 1) return { rope, scale: scale(usual * stated) };
  const [growth, magnitude] = stretch === "stated" ? [stated, factor] : [usual, (factor * usual) / stated];
  return { rope: { ...rope, scaling: { ...rope.scaling, magnitude } }, scale: scale(growth) };
}

function readTemperature(reader: HyperParameterReader): AttentionTemperature | undefined {
  const scale = reader.optionalNonNegative("attention.temperature_scale") ?? 0;
  return scale === 0
    ? undefined
    : { scale, length: reader.count("attention.temperature_length", MAX_CONTEXT), offset: 0 };
}

/** The architecture `deepseek2`. */
export const deepseek2: ArchitectureDescriptor = {
  name: "deepseek2",
  readHyperParameters: (source) => readLatentParameters(source, "stated"),
  buildGraph: buildDecoder,
};
