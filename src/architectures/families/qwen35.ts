// Qwen 3.5, 3.6 and 3.8: gated delta nets, and attention with an output gate in every fourth layer. The norm before the
// feed-forward network has the name `post_attention_norm`.

import { buildDecoder } from "../decoder.js";
import type {
  ArchitectureDescriptor,
  AttentionParameters,
  DecoderTraits,
  HyperParameters,
  ModelSource,
} from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import {
  type FeedForwardReader,
  FIRST_DRAFT_POSITION,
  readDecoderParameters,
  readDense,
  readDraftBlock,
  readLayerCount,
  withMixers,
} from "../hyper-parameters.js";
import type { DeltaNetSpec, LayerSpec } from "../layer.js";
import { readDeltaNet } from "../recurrent.js";
import { withInterleavedSections } from "../rope-sections.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before, named post_attention_norm",
  queryKeyNorm: { span: "head", place: "before-rope", weighted: true },
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: undefined,
};

const ATTENTION_INTERVAL = 4;

/** The hyper-parameters of a model with gated delta nets and attention with an output gate. */
export function readDeltaNetHybrid(
  source: ModelSource,
  keyHeadOrder: DeltaNetSpec["keyHeadOrder"],
  readFeedForward: FeedForwardReader = readDense,
): HyperParameters {
  const reader = new HyperParameterReader(source);
  const recurrent = recurrentLayers(reader, readLayerCount(source, reader));
  const deltaNet = readDeltaNet(reader, keyHeadOrder);
  const parameters = readDecoderParameters(source, traits, readFeedForward, { recurrent: (layer) => recurrent[layer] });
  const gated = withMixers(parameters, (mixer) => ({ ...mixer, outputGate: true }));
  const [{ mixer }] = gated.layers;
  if (mixer.keyWidth !== mixer.valueWidth)
    reader.refuse("attention.value_length", `${mixer.keyWidth}, as wide as the gate`, String(mixer.valueWidth));
  return {
    ...gated,
    ...readDraftHead(source, reader, gated),
    layers: gated.layers.map((layer, index): LayerSpec => (recurrent[index] ? { ...layer, mixer: deltaNet } : layer)),
  };
}

/** The draft head is one more layer with attention. */
function readDraftHead(
  source: ModelSource,
  reader: HyperParameterReader,
  { layers, normEpsilon }: AttentionParameters,
): Pick<HyperParameters, "draftHead"> {
  const block = readDraftBlock(source, reader);
  if (block === undefined) return {};
  const { mixer, ...rest } = layers[layers.length - 1];
  const layer = { ...rest, mixer: { ...mixer, first: FIRST_DRAFT_POSITION } };
  return { draftHead: { block, layer, norm: "rms", normEpsilon } };
}

/** Every layer but each `full_attention_interval`-th, or those that a list names. */
function recurrentLayers(reader: HyperParameterReader, layers: number): readonly boolean[] {
  if (reader.isArray("attention.recurrent_layers"))
    return Array.from(reader.layerList("attention.recurrent_layers", layers), (value) => value !== 0);
  const interval = reader.optionalCount("full_attention_interval", MAX_CONTEXT) ?? ATTENTION_INTERVAL;
  return Array.from({ length: layers }, (_, layer) => (layer + 1) % interval !== 0);
}

/** The architecture `qwen35`. */
export const qwen35: ArchitectureDescriptor = {
  name: "qwen35",
  readHyperParameters: (source) => withInterleavedSections(source, readDeltaNetHybrid(source, "cyclic")),
  buildGraph: buildDecoder,
};
