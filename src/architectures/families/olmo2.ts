// OLMo 2 and 3: norms after each block instead of before, and over the whole rows of queries and keys. OLMo 3 has a sliding
// window on three of four layers, which rotate without scaling.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { readDecoderParameters, withMixers } from "../hyper-parameters.js";
import type { RopeSpec } from "../layer.js";
import { windowLayers } from "../sliding-window.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "after",
  queryKeyNorm: { span: "row", place: "before-rope", weighted: true },
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const WINDOW_PERIOD = 4;

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits);
  if ((reader.optionalNonNegative("attention.sliding_window") ?? 0) === 0) return parameters;
  const window = reader.count("attention.sliding_window", MAX_CONTEXT);
  const windows = windowLayers(reader, { layers: parameters.layers.length, period: WINDOW_PERIOD, list: false });
  const shared = parameters.layers[0].mixer.rope;
  const windowRope: Partial<Record<"rope", RopeSpec>> = shared === undefined ? {} : { rope: unscaled(shared) };
  return withMixers(parameters, (mixer, layer) => (windows[layer] ? { ...mixer, ...windowRope, window } : mixer));
}

/** The base is that of the other layers: llama.cpp does not use `rope.freq_base_swa` here. */
function unscaled(rope: RopeSpec): RopeSpec {
  return { ...rope, scaling: { ...rope.scaling, kind: "none", factor: 1, magnitude: 1 } };
}

/** The architecture `olmo2`. */
export const olmo2: ArchitectureDescriptor = {
  name: "olmo2",
  readHyperParameters,
  buildGraph: buildDecoder,
};
