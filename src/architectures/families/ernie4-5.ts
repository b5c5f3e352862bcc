// ERNIE 4.5, dense: LLaMA's layer.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { readDecoderParameters } from "../hyper-parameters.js";

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

/** The architecture `ernie4_5`. */
export const ernie45: ArchitectureDescriptor = {
  name: "ernie4_5",
  readHyperParameters: (source) => readDecoderParameters(source, traits),
  buildGraph: buildDecoder,
};
