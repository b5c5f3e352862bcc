// SmolLM 3: LLaMA's layer, without rotation in every fourth.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { readDecoderParameters, withMixers } from "../hyper-parameters.js";

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

const UNROTATED_PERIOD = 4;

function readHyperParameters(source: ModelSource): HyperParameters {
  return withMixers(readDecoderParameters(source, traits), ({ rope, ...mixer }, layer) =>
    rope === undefined || (layer + 1) % UNROTATED_PERIOD === 0 ? mixer : { ...mixer, rope },
  );
}

/** The architecture `smollm3`. */
export const smollm3: ArchitectureDescriptor = {
  name: "smollm3",
  readHyperParameters,
  buildGraph: buildDecoder,
};
