// Seed-OSS: biases on queries, keys and values; the norm before the feed-forward network has an unusual name.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { readDecoderParameters } from "../hyper-parameters.js";

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

/** The architecture `seed_oss`. */
export const seedOss: ArchitectureDescriptor = {
  name: "seed_oss",
  readHyperParameters: (source) => readDecoderParameters(source, traits),
  buildGraph: buildDecoder,
};
