// Nemotron Nano 2 and Nemotron-H: one part a layer, which is Mamba-2, attention without rotation, or a feed-forward network with relu².

import { buildDecoder } from "../decoder.js";
import type {
  ArchitectureDescriptor,
  AttentionParameters,
  DecoderTraits,
  HyperParameters,
  ModelSource,
} from "../descriptor.js";
import { HyperParameterReader } from "../hyper-parameter-reader.js";
import {
  FIRST_DRAFT_POSITION,
  MAX_WIDTH,
  readDecoderParameters,
  readDraftBlock,
  readLayerCount,
  withMixers,
} from "../hyper-parameters.js";
import { type FeedForwardSpec, type LayerSpec, NORMS } from "../layer.js";
import { layersWithoutKv, readMamba2 } from "../recurrent.js";

const traits: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  norm: "rms",
  normPlacement: "before, one part",
  queryKeyNorm: undefined,
  activation: "relu",
  gateAndUp: "same",
  partialRotary: true,
  ropeFactors: undefined,
};

const NONE = { kind: "none" } as const;

/** The feed-forward network of a layer with one, given its width. */
export type NetworkReader = (reader: HyperParameterReader) => (width: number) => FeedForwardSpec;

const readNetwork: NetworkReader = () => (width) => ({
  kind: "dense",
  width,
  activation: traits.activation,
  gateAndUp: traits.gateAndUp,
});

/** The hyper-parameters of a model with one part a layer. */
export function readSinglePartLayers(source: ModelSource, network: NetworkReader = readNetwork): HyperParameters {
  const reader = new HyperParameterReader(source);
  const widths = reader.layerCounts("feed_forward_length", MAX_WIDTH, readLayerCount(source, reader), 0);
  const withoutKv = layersWithoutKv(source, reader);
  // Without keys, values and states a sequence would have nothing to remember.
  if (!widths.includes(0)) reader.refuse("feed_forward_length", "0 for a layer that mixes tokens", "none");
  const networkOf = network(reader);
  const parameters = readDecoderParameters(source, traits, () => widths.map(() => NONE), {
    recurrent: (layer) => withoutKv[layer] || widths[layer] > 0,
  });
  const mamba2 = widths.some((width, layer) => width === 0 && withoutKv[layer]) ? readMamba2(reader) : NONE;
  const unrotated = withMixers(parameters, ({ rope: _rope, ...mixer }) => mixer);
  return {
    ...unrotated,
    ...readDraftHead(source, reader, unrotated, networkOf),
    layers: unrotated.layers.map((layer, index): LayerSpec => {
      if (widths[index] > 0) return { ...layer, mixer: NONE, feedForward: networkOf(widths[index]) };
      return withoutKv[index] ? { ...layer, mixer: mamba2 } : layer;
    }),
  };
}

/** The draft head has attention and a feed-forward network in one block, and ends with a layer norm. */
function readDraftHead(
  source: ModelSource,
  reader: HyperParameterReader,
  { layers }: AttentionParameters,
  networkOf: (width: number) => FeedForwardSpec,
): Pick<HyperParameters, "draftHead"> {
  const block = readDraftBlock(source, reader);
  if (block === undefined) return {};
  const { mixer } = layers.find(({ mixer: { kvHeads, heads } }) => kvHeads !== heads) ?? layers[0];
  const kvHeads = reader.numbers("attention.head_count_kv")?.[block] || mixer.kvHeads;
  // A head that cannot be run leaves the model without drafts, not without layers.
  if (!(Number.isInteger(kvHeads) && kvHeads >= 1 && mixer.heads % kvHeads === 0)) return {};
  const width = reader.numbers("feed_forward_length")?.[block] || 1;
  const layer: LayerSpec = {
    mixer: { ...mixer, kvHeads, first: FIRST_DRAFT_POSITION },
    feedForward: networkOf(width),
    norms: NORMS["before, named post_attention_norm"],
  };
  const normEpsilon = reader.positive("attention.layer_norm_epsilon");
  return { draftHead: { block, layer, norm: "layer", normEpsilon } };
}

/** The architecture `nemotron_h`. */
export const nemotronH: ArchitectureDescriptor = {
  name: "nemotron_h",
  readHyperParameters: (source) => readSinglePartLayers(source),
  buildGraph: buildDecoder,
};
