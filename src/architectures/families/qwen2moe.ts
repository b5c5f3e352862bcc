// Qwen 1.5 and 2 mixtures of experts: biases on queries, keys and values; the experts' weights are not renormalized; a shared
// expert with a gate of its own.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense, sharedByWidth } from "../experts.js";
import { MAX_WIDTH, readDecoderParameters } from "../hyper-parameters.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
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
  sharesWidth: true,
  gating: "softmax",
  gatingKey: false,
  renormalize: false,
  weightScaleKey: false,
  weighsInput: false,
  shared: (reader) => {
    const shared = sharedByWidth(reader);
    return { width: shared?.width ?? reader.count("feed_forward_length", MAX_WIDTH), gated: true };
  },
};

/** The architecture `qwen2moe`. */
export const qwen2moe: ArchitectureDescriptor = {
  name: "qwen2moe",
  readHyperParameters: (source) => readDecoderParameters(source, traits, expertsOrDense(experts)),
  buildGraph: buildDecoder,
};
