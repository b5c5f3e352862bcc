// GLM-4 (0414 and later): norms before and after each block, gate and up in one matmul, half of each head rotated. Its
// multimodal siblings (GLM-4.1V, GLM-OCR) have rope sections, and their converter stores heads in halves.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { readDecoderParameters } from "../hyper-parameters.js";

const traits: DecoderTraits = {
  ropeStyle: "adjacent",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before-and-after",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "fused",
  partialRotary: true,
  ropeFactors: undefined,
};

/** The architecture `glm4`. */
export const glm4: ArchitectureDescriptor = {
  name: "glm4",
  readHyperParameters: (source) => readDecoderParameters(source, traits),
  buildGraph: buildDecoder,
  looksLike: (has) => has("blk.0.post_attention_norm.weight") && has("blk.0.post_ffw_norm.weight"),
};
