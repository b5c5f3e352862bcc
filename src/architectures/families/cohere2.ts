// Command R7B and Command A: attention and feed-forward network side by side after one LayerNorm, a sliding window and rotation on
// three of four layers, scaled logits.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { readDecoderParameters, withMixers } from "../hyper-parameters.js";
import { windowLayers } from "../sliding-window.js";

const traits: DecoderTraits = {
  ropeStyle: "adjacent",
  sectionedRopeStyle: "adjacent",
  norm: "layer",
  normPlacement: "parallel",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const WINDOW_PERIOD = 4;

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits);
  const window = reader.count("attention.sliding_window", MAX_CONTEXT);
  const windows = windowLayers(reader, { layers: parameters.layers.length, period: WINDOW_PERIOD, list: false });
  return {
    ...withMixers(parameters, ({ rope, ...mixer }, layer) =>
      windows[layer] ? { ...mixer, window, ...(rope === undefined ? {} : { rope }) } : mixer,
    ),
    logitScale: reader.positive("logit_scale"),
  };
}

/** The architecture `cohere2`. */
export const cohere2: ArchitectureDescriptor = {
  name: "cohere2",
  readHyperParameters,
  buildGraph: buildDecoder,
};
