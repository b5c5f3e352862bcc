// Gemma 4: window and full layers with heads of different sizes, a scale of 1 for scores of normalized queries, keys and values,
// layers that use the keys and values of an earlier one, embeddings for each layer (E2B, E4B), and experts beside the
// feed-forward network (26B-A4B). Norm weights are used as they are.

import type { GraphBuilder } from "../../graph/builder.js";
import type { ValueId } from "../../graph/operation.js";
import type { Program } from "../../graph/program.js";
import { normAt, type PlacedLayer, writeEmbedding, writeLayers, writeMixer } from "../decoder.js";
import { DecoderContext } from "../decoder-context.js";
import type {
  ArchitectureDescriptor,
  AttentionParameters,
  DecoderTraits,
  HyperParameters,
  ModelSource,
} from "../descriptor.js";
import { type ExpertTraits, readExperts } from "../experts.js";
import { writeExperts, writeFeedForward, writeRouterLogits } from "../feed-forward.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { MAX_WIDTH, readDecoderParameters } from "../hyper-parameters.js";
import type { AttentionSpec, ExpertsSpec, LayerSpec, RopeSpec } from "../layer.js";
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
  ropeFactors: "rope_freqs.weight",
};

const experts: ExpertTraits = {
  widthKey: "expert_feed_forward_length",
  gating: "softmax",
  gatingKey: false,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: undefined,
};

const WINDOW_PERIOD = 6;
const WINDOW_ROPE_BASE = 10_000;
const LOGIT_SOFT_CAP = 30;

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits);
  const mixers = readMixers(source, reader, parameters);
  const width = reader.optionalNonNegative("embedding_length_per_layer_input") ?? 0;
  return {
    ...parameters,
    embeddingScale: Math.fround(Math.sqrt(parameters.embeddingWidth)),
    logitSoftCap: reader.optionalPositive("final_logit_softcapping") ?? LOGIT_SOFT_CAP,
    ...(width === 0
      ? {}
      : { layerEmbeddingWidth: reader.count("embedding_length_per_layer_input", layerEmbeddingLimit(parameters)) }),
    layers: parameters.layers.map((layer, index) =>
      withExperts(source, reader, { ...layer, mixer: mixers[index] }, index),
    ),
  };
}

/** The embeddings of all layers are one row. */
function layerEmbeddingLimit({ layers }: AttentionParameters): number {
  return Math.max(1, Math.floor(MAX_WIDTH / layers.length));
}

/** A layer has experts if it has a router. */
function withExperts(source: ModelSource, reader: HyperParameterReader, layer: LayerSpec, index: number): LayerSpec {
  if (!source.tensors.has(source.fileName(`blk.${index}.ffn_gate_inp.weight`))) return layer;
  const spec = readExperts(reader, experts);
  return spec === undefined ? layer : { ...layer, experts: { ...spec, activation: traits.activation } };
}

function readMixers(
  source: ModelSource,
  reader: HyperParameterReader,
  { layers }: AttentionParameters,
): readonly AttentionSpec[] {
  const windows = windowLayers(reader, { layers: layers.length, period: WINDOW_PERIOD, list: true });
  const { mixer: first } = layers[0];
  const windowed = readWindowed(reader, first, Math.max(...layers.map(({ mixer }) => mixer.heads)));
  const shared = reader.optionalNonNegative("attention.shared_kv_layers") ?? 0;
  const firstShared = layers.length - shared;
  if (!Number.isInteger(shared) || (shared > 0 && firstShared < 1))
    reader.refuse("attention.shared_kv_layers", `0 to ${layers.length - 1}`, String(shared));
  return layers.map(({ mixer }, index) => {
    const hasValues = source.tensors.has(source.fileName(`blk.${index}.attn_v.weight`));
    const own: AttentionSpec = {
      ...mixer,
      scale: 1,
      valueNorm: true,
      ...(windows[index] ? windowed : {}),
    };
    if (index >= firstShared) {
      const kvOfLayer = sourceLayer(reader, windows, firstShared, index);
      const { kvHeads } = layers[kvOfLayer].mixer;
      if (kvHeads !== own.kvHeads)
        reader.refuse("attention.head_count_kv", `${kvHeads} in layer ${index}, as in ${kvOfLayer}`, `${own.kvHeads}`);
      return { ...own, kvOfLayer };
    }
    return hasValues || own.keyWidth !== own.valueWidth ? own : { ...own, keysAsValues: true };
  });
}

/** The last layer of the same kind with keys and values of its own. */
function sourceLayer(
  reader: HyperParameterReader,
  windows: readonly boolean[],
  firstShared: number,
  layer: number,
): number {
  const found = windows.slice(0, firstShared).lastIndexOf(windows[layer]);
  if (found === -1)
    reader.refuse("attention.shared_kv_layers", "a layer of the same kind before the shared ones", "none");
  return found;
}

/** What window layers have of their own: width of heads, rope without divisors, and the window. */
function readWindowed(
  reader: HyperParameterReader,
  { rope, ...full }: AttentionSpec,
  heads: number,
): Partial<AttentionSpec> {
  if (rope === undefined) throw new TypeError("this family rotates");
  const keyWidth = reader.optionalCount("attention.key_length_swa", MAX_WIDTH) ?? full.keyWidth;
  const valueWidth = reader.optionalCount("attention.value_length_swa", MAX_WIDTH) ?? full.valueWidth;
  if (heads * Math.max(keyWidth, valueWidth) > MAX_WIDTH)
    reader.refuse("attention.key_length_swa", `heads × width of at most ${MAX_WIDTH}`, `${heads} × ${keyWidth}`);
  const rotaryWidth = reader.optionalCount("rope.dimension_count_swa", MAX_WIDTH) ?? keyWidth;
  if (rotaryWidth > keyWidth || rotaryWidth % 2 !== 0)
    reader.refuse("rope.dimension_count_swa", `an even number up to ${keyWidth} (a head)`, String(rotaryWidth));
  const { style, scaling } = rope;
  const base = reader.optionalPositive("rope.freq_base_swa") ?? WINDOW_ROPE_BASE;
  const windowRope: RopeSpec = { style, base, rotaryWidth, scaling: unscaled(reader, scaling) };
  return { keyWidth, valueWidth, rope: windowRope, window: reader.count("attention.sliding_window", MAX_CONTEXT) };
}

function buildGraph(graph: GraphBuilder, parameters: HyperParameters): Program {
  const context = new DecoderContext(graph, parameters);
  const embedding = writeEmbedding(context);
  const layerInputs = writeLayerEmbeddings(context, embedding);
  return writeLayers(context, embedding, (_, layer, input) => writeLayer(context, layer, input, layerInputs));
}

/** The embeddings of all layers, one after the other, or undefined if the model has none. */
function writeLayerEmbeddings(context: DecoderContext, embedding: ValueId): ValueId | undefined {
  const { graph, parameters } = context;
  const { layerEmbeddingWidth: width, embeddingWidth, vocabularySize, layers, normEpsilon } = parameters;
  if (width === undefined) return undefined;
  const outputs = width * layers.length;
  return graph.segment("layer embeddings", undefined, () => {
    const looked = graph.embed("per_layer_token_embd.weight", outputs, vocabularySize, {
      scale: Math.fround(Math.sqrt(width)),
      onHost: true,
    });
    const projected = graph.scale(
      graph.matmul(embedding, "per_layer_model_proj", { inputs: embeddingWidth, outputs }),
      1 / Math.sqrt(embeddingWidth),
    );
    const normed = graph.rmsNorm(projected, "per_layer_proj_norm", normEpsilon, width);
    return graph.scale(graph.add(looked, normed), Math.SQRT1_2);
  });
}

function writeLayer(
  context: DecoderContext,
  layer: PlacedLayer,
  input: ValueId,
  layerInputs: ValueId | undefined,
): ValueId {
  const { graph } = context;
  const { spec, index } = layer;
  if (spec.feedForward.kind === "none") throw new TypeError("every layer of this family has a feed-forward network");
  const block = `blk.${index}`;
  const { result, residual } = writeMixer(
    context,
    layer,
    normAt(context, spec.norms, block, "beforeMixer", input),
    input,
  );
  const middle = graph.add(residual, normAt(context, spec.norms, block, "afterMixer", result));
  const dense = writeFeedForward(
    context,
    spec.feedForward,
    block,
    normAt(context, spec.norms, block, "beforeFeedForward", middle),
  );
  const fed = spec.experts === undefined ? dense : writeWithExperts(context, spec.experts, block, middle, dense);
  const after = graph.add(middle, normAt(context, spec.norms, block, "afterFeedForward", fed));
  const added = layerInputs === undefined ? after : addLayerEmbedding(context, layer, after, layerInputs);
  const scale = `${block}.layer_output_scale.weight`;
  return graph.hasTensor(scale) ? graph.scaleByTensor(added, scale) : added;
}

/** The sum of the feed-forward network and the experts, each normalized; the router has a norm of its own. */
function writeWithExperts(
  context: DecoderContext,
  spec: ExpertsSpec,
  block: string,
  middle: ValueId,
  dense: ValueId,
): ValueId {
  const { graph, parameters } = context;
  const { embeddingWidth, normEpsilon } = parameters;
  const denseBranch = context.norm(dense, `${block}.post_ffw_norm_1`);
  const routerInput = graph.scale(
    graph.emit("router input", {
      kind: "rms-norm",
      input: middle,
      weight: graph.vector(`${block}.ffn_gate_inp.scale`, embeddingWidth),
      groupWidth: embeddingWidth,
      epsilon: normEpsilon,
    }),
    1 / Math.sqrt(embeddingWidth),
  );
  const logits = writeRouterLogits(context, spec, block, routerInput);
  const expertInput = context.norm(middle, `${block}.pre_ffw_norm_2`);
  const sum = writeExperts(context, spec, block, expertInput, logits);
  return graph.add(denseBranch, context.norm(sum, `${block}.post_ffw_norm_2`));
}

function addLayerEmbedding(
  context: DecoderContext,
  { index, isLast }: PlacedLayer,
  value: ValueId,
  layerInputs: ValueId,
): ValueId {
  const { graph, parameters } = context;
  const { layerEmbeddingWidth: width = 0, embeddingWidth } = parameters;
  const block = `blk.${index}`;
  const own = graph.columns(layerInputs, "layer embedding", index * width, width);
  const gate = graph.matmul(value, `${block}.inp_gate`, { inputs: embeddingWidth, outputs: width });
  const gated = graph.glu(gate, isLast ? graph.selectRows(own, "outputs") : own, traits.activation);
  const projected = graph.matmul(gated, `${block}.proj`, { inputs: width, outputs: embeddingWidth });
  return graph.add(value, context.norm(projected, `${block}.post_norm`));
}

/** The architecture `gemma4`. */
export const gemma4: ArchitectureDescriptor = {
  name: "gemma4",
  readHyperParameters,
  buildGraph,
};
