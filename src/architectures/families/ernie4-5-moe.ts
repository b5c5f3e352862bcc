// ERNIE 4.5 mixtures of experts: LLaMA's attention, dense layers first, a shared expert, a router with a selection bias.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { afterLeadingDense, type ExpertTraits, expertsOrDense, sharedByWidth } from "../experts.js";
import type { HyperParameterReader } from "../hyper-parameter-reader.js";
import { readDecoderParameters } from "../hyper-parameters.js";

const MAX_STEP = 1 << 12;

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
  gatingKey: false,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: sharedByWidth,
};

/** Every `interleave_moe_layer_step`-th layer after the dense ones. */
function isExperts(reader: HyperParameterReader): (layer: number) => boolean {
  const after = afterLeadingDense(reader);
  const step = reader.optionalCount("interleave_moe_layer_step", MAX_STEP) ?? 1;
  return (layer) => after(layer) && (layer + 1) % step === 0;
}

/** The architecture `ernie4_5-moe`. */
export const ernie45Moe: ArchitectureDescriptor = {
  name: "ernie4_5-moe",
  readHyperParameters: (source) => readDecoderParameters(source, traits, expertsOrDense(experts, isExperts)),
  buildGraph: buildDecoder,
};
