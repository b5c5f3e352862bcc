// gpt-oss: experts with biases and a clamped activation in every layer, attention sinks, and a sliding window on every other
// layer.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense } from "../experts.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { readDecoderParameters, withMixers } from "../hyper-parameters.js";
import { windowLayers, windowRope } from "../sliding-window.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before, named post_attention_norm",
  queryKeyNorm: undefined,
  activation: "swiglu-oai",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const experts: ExpertTraits = {
  widthKey: "expert_feed_forward_length",
  gating: "softmax-selected",
  gatingKey: false,
  renormalize: false,
  weightScaleKey: false,
  weighsInput: false,
  shared: undefined,
};

const WINDOW_PERIOD = 2;

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits, expertsOrDense(experts));
  const window = reader.count("attention.sliding_window", MAX_CONTEXT);
  const windows = windowLayers(reader, { layers: parameters.layers.length, period: WINDOW_PERIOD, list: false });
  const rope = windowRope(reader, parameters.layers[0].mixer);
  return withMixers(parameters, (mixer, layer) => ({
    ...mixer,
    sinks: true,
    ...(windows[layer] ? { window, ...rope } : {}),
  }));
}

/** The architecture `gpt-oss`. */
export const gptOss: ArchitectureDescriptor = {
  name: "gpt-oss",
  readHyperParameters,
  buildGraph: buildDecoder,
};
