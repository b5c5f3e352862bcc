// Granite 4 hybrids: Mamba-2 or attention, each followed by a dense network or experts, with Granite's multipliers. Layers without
// KV heads are recurrent.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense, sharedByWidth } from "../experts.js";
import { HyperParameterReader } from "../hyper-parameter-reader.js";
import { readDecoderParameters, withMixers } from "../hyper-parameters.js";
import type { LayerSpec } from "../layer.js";
import { layersWithoutKv, readMamba2 } from "../recurrent.js";
import { withMultipliers } from "./granite.js";

const traits: DecoderTraits = {
  ropeStyle: "adjacent",
  sectionedRopeStyle: "adjacent",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: "rope_freqs.weight",
};

const experts: ExpertTraits = {
  widthKey: "feed_forward_length",
  gating: "softmax",
  gatingKey: false,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: sharedByWidth,
};

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const recurrent = layersWithoutKv(source, reader);
  const isRotated = reader.flag("rope.scaling.finetuned") ?? true;
  const read = readDecoderParameters(source, traits, expertsOrDense(experts), {
    recurrent: (layer) => recurrent[layer],
  });
  const attending = isRotated ? read : withMixers(read, ({ rope: _rope, ...mixer }) => mixer);
  const parameters = withMultipliers(source, attending);
  if (!recurrent.includes(true)) return parameters;
  const mamba2 = readMamba2(reader);
  return {
    ...parameters,
    layers: parameters.layers.map((layer, index): LayerSpec =>
      recurrent[index] ? { ...layer, mixer: mamba2 } : layer,
    ),
  };
}

/** The architecture `granitehybrid`. */
export const granitehybrid: ArchitectureDescriptor = {
  name: "granitehybrid",
  readHyperParameters,
  buildGraph: buildDecoder,
};
