// Hunyuan A13B: each head's query and key are normalized after the rotation; a shared expert beside the experts.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense, sharedByWidth } from "../experts.js";
import { readDecoderParameters } from "../hyper-parameters.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: { span: "head", place: "after-rope", weighted: true },
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const experts: ExpertTraits = {
  widthKey: "feed_forward_length",
  gating: "softmax",
  gatingKey: false,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: sharedByWidth,
};

/** The architecture `hunyuan-moe`. */
export const hunyuanMoe: ArchitectureDescriptor = {
  name: "hunyuan-moe",
  readHyperParameters: (source) => readDecoderParameters(source, traits, expertsOrDense(experts)),
  buildGraph: buildDecoder,
};
