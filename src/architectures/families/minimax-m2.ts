// MiniMax M2: norms over the whole rows of queries and keys, half of each head rotated, experts in every layer with
// a sigmoid router.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense } from "../experts.js";
import { readDecoderParameters } from "../hyper-parameters.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: { span: "row", place: "before-rope", weighted: true },
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const experts: ExpertTraits = {
  widthKey: "feed_forward_length",
  gating: "sigmoid",
  gatingKey: true,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: undefined,
};

/** The architecture `minimax-m2`. */
export const minimaxM2: ArchitectureDescriptor = {
  name: "minimax-m2",
  readHyperParameters: (source) => readDecoderParameters(source, traits, expertsOrDense(experts)),
  buildGraph: buildDecoder,
};
