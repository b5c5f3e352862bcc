// EXAONE 4: norms after each block, each head's query and key normalized. The 32B model, recognised by its 64 layers, has a sliding
// window on three of four layers and rotates only those.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { readDecoderParameters, withMixers } from "../hyper-parameters.js";
import { windowLayers } from "../sliding-window.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "after",
  queryKeyNorm: { span: "head", place: "before-rope", weighted: true },
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: "rope_freqs.weight",
};

const LAYERS_WITH_WINDOWS = 64;
const WINDOW_PERIOD = 4;
const WINDOW = 4096;

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits);
  if (parameters.layers.length !== LAYERS_WITH_WINDOWS) return parameters;
  const window = reader.optionalCount("attention.sliding_window", MAX_CONTEXT) ?? WINDOW;
  const windows = windowLayers(reader, { layers: parameters.layers.length, period: WINDOW_PERIOD, list: false });
  return withMixers(parameters, ({ rope, ...mixer }, layer) =>
    windows[layer] ? { ...mixer, window, ...(rope === undefined ? {} : { rope }) } : mixer,
  );
}

/** The architecture `exaone4`. */
export const exaone4: ArchitectureDescriptor = {
  name: "exaone4",
  readHyperParameters,
  buildGraph: buildDecoder,
};
