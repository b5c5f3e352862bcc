// Gemma 3: Gemma 2's layer without soft-caps, with norms of each head's query and key, five window layers per full one,
// and a separate rope base for window layers, which are not scaled for longer contexts.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, AttentionParameters, DecoderTraits, ModelSource } from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { readDecoderParameters } from "../hyper-parameters.js";
import type { AttentionSpec, RopeSpec } from "../layer.js";
import { unscaled, windowLayers } from "../sliding-window.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before-and-after",
  queryKeyNorm: { span: "head", place: "before-rope", weighted: true },
  activation: "gelu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const WINDOW_PERIOD = 6;
const WINDOW_ROPE_BASE = 10_000;
/**
 * The 27B model, recognised by its number of layers, divides by the root of width ÷ heads instead of the head width.
 */
const LAYERS_OF_27B = 62;

function readHyperParameters(source: ModelSource): AttentionParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits);
  const { embeddingWidth } = parameters;
  const layers = parameters.layers.length;
  const logitSoftCap = reader.optionalNonNegative("final_logit_softcapping") ?? 0;
  const windowed = windowedAttention(reader, parameters);
  const windows = windowLayers(reader, { layers, period: WINDOW_PERIOD, list: false });
  return {
    ...parameters,
    embeddingScale: Math.fround(Math.sqrt(embeddingWidth)),
    ...(logitSoftCap === 0 ? {} : { logitSoftCap }),
    layers: parameters.layers.map(({ mixer, ...layer }, index) => ({
      mixer: {
        ...mixer,
        ...(layers === LAYERS_OF_27B ? { scale: 1 / Math.sqrt(embeddingWidth / mixer.heads) } : {}),
        ...(windows[index] ? windowed : {}),
      },
      ...layer,
    })),
  };
}

/** Attributes of window layers; empty if the file states no window. */
function windowedAttention(reader: HyperParameterReader, { layers }: AttentionParameters): Partial<AttentionSpec> {
  const isStated = (reader.optionalNonNegative("attention.sliding_window") ?? 0) > 0;
  const [{ mixer }] = layers;
  if (!isStated || mixer.rope === undefined) return {};
  const base = reader.optionalPositive("rope.freq_base_swa") ?? WINDOW_ROPE_BASE;
  const rope: RopeSpec = { ...mixer.rope, base, scaling: unscaled(reader, mixer.rope.scaling) };
  return { window: reader.count("attention.sliding_window", MAX_CONTEXT), rope };
}

/** The architecture `gemma3`. */
export const gemma3: ArchitectureDescriptor = {
  name: "gemma3",
  readHyperParameters,
  buildGraph: buildDecoder,
  looksLike: (has) => has("blk.0.attn_q_norm.weight") && has("blk.0.post_ffw_norm.weight"),
};
