// Llama 4, text: chunked attention with rotation and norms without weights on three of four layers, full attention without rotation but
// with a temperature on the fourth; experts in every few layers, whose weights scale their input, with a shared expert.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense } from "../experts.js";
import { HyperParameterReader } from "../hyper-parameter-reader.js";
import { readDecoderParameters, withMixers } from "../hyper-parameters.js";
import type { AttentionSpec } from "../layer.js";
import { windowRope } from "../sliding-window.js";

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
  widthKey: "expert_feed_forward_length",
  gating: "sigmoid-selected",
  gatingKey: false,
  renormalize: false,
  weightScaleKey: false,
  weighsInput: true,
  shared: (_reader, width) => ({ width, gated: false }),
};

const CHUNK = 8192;
const FULL_PERIOD = 4;
const MAX_STEP = 1 << 12;
const TEMPERATURE = { scale: 0.1, length: 8192, offset: 1 };
/** The model with this many experts has no norms of queries and keys. */
const EXPERTS_WITHOUT_NORM = 128;

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits, expertsOrDense(experts, isExperts));
  // A window of 0 turns chunks off, and the rotation of the last layer alone.
  const isChunked = reader.optionalNonNegative("attention.sliding_window") !== 0;
  const period = isChunked ? FULL_PERIOD : parameters.layers.length;
  const chunked: Partial<AttentionSpec> = isChunked
    ? { chunk: CHUNK, ...windowRope(reader, parameters.layers[0].mixer) }
    : {};
  const isNormed = reader.optionalNonNegative("expert_count") !== EXPERTS_WITHOUT_NORM;
  return withMixers(parameters, ({ rope, ...mixer }, layer): AttentionSpec => {
    if (rope === undefined || (layer + 1) % period === 0) return { ...mixer, temperature: TEMPERATURE };
    return {
      ...mixer,
      rope,
      ...chunked,
      ...(isNormed ? { queryKeyNorm: { span: "head", place: "after-rope", weighted: false } } : {}),
    };
  });
}

function isExperts(reader: HyperParameterReader): (layer: number) => boolean {
  const step = reader.count("interleave_moe_layer_step", MAX_STEP);
  return (layer) => (layer + 1) % step === 0;
}

/** The architecture `llama4`. */
export const llama4: ArchitectureDescriptor = {
  name: "llama4",
  readHyperParameters,
  buildGraph: buildDecoder,
};
