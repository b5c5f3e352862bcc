// Falcon-H1: attention and Mamba-2 side by side in every layer, then a feed-forward network. The multipliers of the model are part of
// a file's weights.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { HyperParameterReader } from "../hyper-parameter-reader.js";
import { readDecoderParameters } from "../hyper-parameters.js";
import { readMamba2 } from "../recurrent.js";

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

function readHyperParameters(source: ModelSource): HyperParameters {
  const parameters = readDecoderParameters(source, traits);
  const mixerBeside = readMamba2(new HyperParameterReader(source));
  return { ...parameters, layers: parameters.layers.map((layer) => ({ ...layer, mixerBeside })) };
}

/** The architecture `falcon-h1`. */
export const falconH1: ArchitectureDescriptor = {
  name: "falcon-h1",
  readHyperParameters,
  buildGraph: buildDecoder,
};
