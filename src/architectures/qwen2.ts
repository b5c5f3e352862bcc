// Qwen 1.5, 2 and 2.5: the LLaMA layer with biases on queries, keys and values and the two halves of a head rotated together.

import { buildDecoder } from "./decoder.js";
import type { ArchitectureDescriptor, ArchitectureTraits } from "./descriptor.js";
import { readDecoderParameters } from "./hyper-parameters.js";

const traits: ArchitectureTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  normPlacement: "before",
  queryKeyNorm: false,
  feedForward: "gate-and-up",
  partialRotary: false,
  ropeFactors: undefined,
};

export const qwen2: ArchitectureDescriptor = {
  name: "qwen2",
  traits,
  readHyperParameters: (source) => readDecoderParameters(source, traits),
  buildGraph: (graph, parameters) => buildDecoder(graph, parameters, traits),
  looksLike: (has) => has("blk.0.attn_q.bias") && has("blk.0.ffn_gate.weight"),
};
