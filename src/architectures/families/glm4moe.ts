// GLM 4.5 to 4.7 mixtures of experts: biases on queries, keys and values, half of each head rotated, a dense layer first, a router
// with sigmoid and selection bias, a shared expert. The largest one normalizes each head's query and key.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { afterLeadingDense, type ExpertTraits, expertsOrDense, sharedByCount } from "../experts.js";
import { readDecoderParameters } from "../hyper-parameters.js";
import type { QueryKeyNorm } from "../layer.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before, named post_attention_norm",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const experts: ExpertTraits = {
  widthKey: "expert_feed_forward_length",
  gating: "sigmoid",
  gatingKey: true,
  renormalize: "key",
  weightScaleKey: true,
  weighsInput: false,
  shared: sharedByCount,
};

const HEAD_NORM: QueryKeyNorm = { span: "head", place: "before-rope", weighted: true };

function readHyperParameters(source: ModelSource): HyperParameters {
  const isNormed = source.tensors.has(source.fileName("blk.0.attn_q_norm.weight"));
  const own = { ...traits, queryKeyNorm: isNormed ? HEAD_NORM : undefined };
  return readDecoderParameters(source, own, expertsOrDense(experts, afterLeadingDense));
}

/** The architecture `glm4moe`. */
export const glm4moe: ArchitectureDescriptor = {
  name: "glm4moe",
  readHyperParameters,
  buildGraph: buildDecoder,
};
