// Gemma 2: norms before and after each block, GeGLU, scaled embeddings, soft-caps on attention and logits, and a
// sliding window on every other layer. The converter has already added 1 to the norm weights.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, AttentionParameters, DecoderTraits, ModelSource } from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { readDecoderParameters } from "../hyper-parameters.js";
import { windowLayers, windowRope } from "../sliding-window.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before-and-after",
  queryKeyNorm: undefined,
  activation: "gelu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const WINDOW = 4096;
const WINDOW_PERIOD = 2;
const ATTENTION_SOFT_CAP = 50;
const LOGIT_SOFT_CAP = 30;
/**
 * The 27B model, recognised by its number of layers, divides by the root of width ÷ heads instead of the head width.
 */
const LAYERS_OF_27B = 46;

function readHyperParameters(source: ModelSource): AttentionParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits);
  const { embeddingWidth } = parameters;
  const layers = parameters.layers.length;
  const window = reader.optionalCount("attention.sliding_window", MAX_CONTEXT) ?? WINDOW;
  const softCap = reader.optionalPositive("attn_logit_softcapping") ?? ATTENTION_SOFT_CAP;
  const rope = windowRope(reader, parameters.layers[0].mixer);
  const windows = windowLayers(reader, { layers, period: WINDOW_PERIOD, list: false });
  return {
    ...parameters,
    embeddingScale: Math.fround(Math.sqrt(embeddingWidth)),
    logitSoftCap: reader.optionalPositive("final_logit_softcapping") ?? LOGIT_SOFT_CAP,
    layers: parameters.layers.map(({ mixer, ...layer }, index) => ({
      mixer: {
        ...mixer,
        softCap,
        ...(layers === LAYERS_OF_27B ? { scale: 1 / Math.sqrt(embeddingWidth / mixer.heads) } : {}),
        ...(windows[index] ? { window, ...rope } : {}),
      },
      ...layer,
    })),
  };
}

/** The architecture `gemma2`. */
export const gemma2: ArchitectureDescriptor = {
  name: "gemma2",
  readHyperParameters,
  buildGraph: buildDecoder,
  // GLM-4 has the same tensor names, but no separate gate.
  looksLike: (has) => has("blk.0.post_ffw_norm.weight") && has("blk.0.ffn_gate.weight"),
};
