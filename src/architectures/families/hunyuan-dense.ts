// Hunyuan, dense: each head's query and key are normalized after the rotation.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
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

/** The architecture `hunyuan-dense`. */
export const hunyuanDense: ArchitectureDescriptor = {
  name: "hunyuan-dense",
  readHyperParameters: (source) => readDecoderParameters(source, traits),
  buildGraph: buildDecoder,
};
