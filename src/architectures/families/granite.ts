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
  partialRotary: false,
  ropeFactors: "rope_freqs.weight",
  countsByLayer: false,
};

function readHyperParameters(source: ModelSource): HyperParameters {
  return withMultipliers(source, readDecoderParameters(source, traits));
}

/** Applies the multipliers of a file and its flag for the rotation. Files write 0 for "none". */
export function withMultipliers(source: ModelSource, parameters: AttentionParameters): HyperParameters {
  const reader = new HyperParameterReader(source);
  const factor = (key: string): number => reader.optionalNonNegative(key) || 1;
  const scale = reader.optionalNonNegative("attention.scale") ?? 0;
  const isRotated = reader.flag("rope.scaling.finetuned") ?? true;
  return {
    ...withMixers(parameters, ({ rope, ...mixer }) => ({
      ...mixer,
      ...(rope === undefined || !isRotated ? {} : { rope }),
      ...(scale === 0 ? {} : { scale }),
    })),
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
