// Qwen 1.5, 2 and 2.5: the LLaMA layer with biases on queries, keys and values, and rotation of the two halves of a
// head.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { readDecoderParameters } from "../hyper-parameters.js";

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

/** The architecture `qwen2`. */
export const qwen2: ArchitectureDescriptor = {
  name: "qwen2",
  readHyperParameters: (source) => readDecoderParameters(source, traits),
  buildGraph: buildDecoder,
  looksLike: (has) => has("blk.0.attn_q.bias") && has("blk.0.ffn_gate.weight"),
};
