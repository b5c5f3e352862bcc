// Qwen 3: no biases, but each head's query and key are normalised before the rotation.

import { buildDecoder } from "./decoder.js";
import type { ArchitectureDescriptor, ArchitectureTraits } from "./descriptor.js";
import { readDecoderParameters } from "./hyper-parameters.js";

const traits: ArchitectureTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  normPlacement: "before",
  queryKeyNorm: true,
  feedForward: "gate-and-up",
  partialRotary: false,
  ropeFactors: undefined,
};

export const qwen3: ArchitectureDescriptor = {
  name: "qwen3",
  traits,
  readHyperParameters: (source) => readDecoderParameters(source, traits),
  buildGraph: (graph, parameters) => buildDecoder(graph, parameters, traits),
  looksLike: (has) => has("blk.0.attn_q_norm.weight") && has("blk.0.attn_k_norm.weight"),
};
