// Phi 3, 3.5 and 4: queries, keys and values in one matmul, gate and up in another; the rotation may cover a part of each head and
// has frequency divisors for short and for long contexts (LongRoPE). llama.cpp ignores the window key, and so do we.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { longRopeFactors, readDecoderParameters, withMixers } from "../hyper-parameters.js";
import type { RopeSpec } from "../layer.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "fused",
  partialRotary: true,
  ropeFactors: undefined,
};

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits);
  const originalContext =
    reader.optionalCount("rope.scaling.original_context_length", MAX_CONTEXT) ?? parameters.contextLength;
  const factors = longRopeFactors(originalContext);
  const shared = parameters.layers[0].mixer.rope;
  const rope: RopeSpec | undefined = shared === undefined ? undefined : { ...shared, factors };
  return withMixers(parameters, (mixer) => (rope === undefined ? mixer : { ...mixer, rope }));
}

/** The architecture `phi3`. */
export const phi3: ArchitectureDescriptor = {
  name: "phi3",
  readHyperParameters,
  buildGraph: buildDecoder,
};
