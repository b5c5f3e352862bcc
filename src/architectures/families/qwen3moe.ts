// Qwen 3 mixtures of experts (30B-A3B, Coder-30B-A3B, 235B-A22B): Qwen 3's attention, experts in every layer.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense } from "../experts.js";
import { readDecoderParameters } from "../hyper-parameters.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: { span: "head", place: "before-rope", weighted: true },
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const experts: ExpertTraits = {
  widthKey: "expert_feed_forward_length",
  sharesWidth: true,
  gating: "softmax",
  gatingKey: false,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: undefined,
};

/** The architecture `qwen3moe`. */
export const qwen3moe: ArchitectureDescriptor = {
  name: "qwen3moe",
  readHyperParameters: (source) => readDecoderParameters(source, traits, expertsOrDense(experts)),
  buildGraph: buildDecoder,
};
