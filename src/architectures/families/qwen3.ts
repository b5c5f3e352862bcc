// Qwen 3: no biases, but each head's query and key are normalized before the rotation.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
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

/** The architecture `qwen3`. */
export const qwen3: ArchitectureDescriptor = {
  name: "qwen3",
  readHyperParameters: (source) => readDecoderParameters(source, traits),
  buildGraph: buildDecoder,
  looksLike: (has) => has("blk.0.attn_q_norm.weight") && has("blk.0.attn_k_norm.weight"),
};
