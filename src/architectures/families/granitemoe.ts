// Granite 3 mixtures of experts: Granite's multipliers around experts, with a shared expert in some files.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense, sharedByWidth } from "../experts.js";
import { readDecoderParameters } from "../hyper-parameters.js";
import { withMultipliers } from "./granite.js";

const traits: DecoderTraits = {
  ropeStyle: "adjacent",
  sectionedRopeStyle: "adjacent",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: "rope_freqs.weight",
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

function readHyperParameters(source: ModelSource): HyperParameters {
  return withMultipliers(source, readDecoderParameters(source, traits, expertsOrDense(experts)));
}

/** The architecture `granitemoe`. */
export const granitemoe: ArchitectureDescriptor = {
  name: "granitemoe",
  readHyperParameters,
  buildGraph: buildDecoder,
};
