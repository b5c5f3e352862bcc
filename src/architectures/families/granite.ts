// Granite 3 and 4, dense: LLaMA's layer with four multipliers, of embeddings, residuals, scores and logits. A converter's flag
// turns the rotation off.

import { buildDecoder } from "../decoder.js";
import type {
  ArchitectureDescriptor,
  AttentionParameters,
  DecoderTraits,
  HyperParameters,
  ModelSource,
} from "../descriptor.js";
import { HyperParameterReader } from "../hyper-parameter-reader.js";
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
  ropeFactors: "rope_freqs.weight",
};

function readHyperParameters(source: ModelSource): HyperParameters {
  const parameters = readDecoderParameters(source, traits);
  const isRotated = new HyperParameterReader(source).flag("rope.scaling.finetuned") ?? true;
  return withMultipliers(source, isRotated ? parameters : withMixers(parameters, ({ rope: _rope, ...mixer }) => mixer));
}

/** Applies the multipliers of a file, which writes 0 for "none". */
export function withMultipliers(source: ModelSource, parameters: AttentionParameters): HyperParameters {
  const reader = new HyperParameterReader(source);
  const factor = (key: string): number => reader.optionalNonNegative(key) || 1;
  const scale = reader.optionalNonNegative("attention.scale") ?? 0;
  return {
    ...withMixers(parameters, (mixer) => ({ ...mixer, ...(scale === 0 ? {} : { scale }) })),
    embeddingScale: factor("embedding_scale"),
    residualScale: factor("residual_scale"),
    logitScale: 1 / factor("logit_scale"),
  };
}

/** The architecture `granite`. */
export const granite: ArchitectureDescriptor = {
  name: "granite",
  readHyperParameters,
  buildGraph: buildDecoder,
};
