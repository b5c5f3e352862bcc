// LFM2 and LFM2.5: short convolutions, and attention in the layers with KV heads. The last norm has the name `token_embd_norm`.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { type FeedForwardReader, readDecoderParameters, readDense } from "../hyper-parameters.js";
import type { LayerSpec } from "../layer.js";
import { layersWithoutKv, readShortConv } from "../recurrent.js";

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

/** The hyper-parameters of a model with short convolutions. */
export function readShortConvHybrid(
  source: ModelSource,
  readFeedForward: FeedForwardReader = readDense,
): HyperParameters {
  const reader = new HyperParameterReader(source);
  const recurrent = layersWithoutKv(source, reader);
  const shortConv = readShortConv(reader);
  const window = (reader.optionalNonNegative("attention.sliding_window") ?? 0) > 0;
  const seen = window ? { window: reader.count("attention.sliding_window", MAX_CONTEXT) } : {};
  const parameters = readDecoderParameters(source, traits, readFeedForward, { recurrent: (layer) => recurrent[layer] });
  return {
    ...parameters,
    outputNorm: "token_embd_norm",
    layers: parameters.layers.map(({ mixer, ...layer }, index): LayerSpec => ({
      ...layer,
      mixer: recurrent[index] ? shortConv : { ...mixer, ...seen },
    })),
  };
}

/** The architecture `lfm2`. */
export const lfm2: ArchitectureDescriptor = {
  name: "lfm2",
  readHyperParameters: (source) => readShortConvHybrid(source),
  buildGraph: buildDecoder,
};
