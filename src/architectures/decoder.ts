// The decoder graph that families share, written once over their list of layers. A family that does not fit writes its
// own `buildGraph` with the same parts.

import type { GraphBuilder } from "../graph/builder.js";
import type { ValueId } from "../graph/operation.js";
import { kvShapeOf, type Program } from "../graph/program.js";
import { writeAttention } from "./attention-layer.js";
import { DecoderContext } from "./decoder-context.js";
import type { HyperParameters } from "./descriptor.js";
import { writeFeedForward } from "./feed-forward.js";
import { writeLatentAttention } from "./latent-attention-layer.js";
import type { LayerNorms, LayerSpec, MixerSpec, NoSpec } from "./layer.js";
import { writeDeltaNet, writeMamba2, writeShortConv } from "./recurrent-layer.js";

/** A layer, and its position in the model. */
export interface PlacedLayer {
  readonly spec: LayerSpec;
  readonly index: number;
  readonly isLast: boolean;
}

/** Writes a layer over the hidden states of all tokens. */
type LayerWriter = (context: DecoderContext, layer: PlacedLayer, input: ValueId) => ValueId;

/** Writes the graph of a decoder-only transformer over its layer specifications. */
export function buildDecoder(graph: GraphBuilder, parameters: HyperParameters): Program {
  const context = new DecoderContext(graph, parameters);
  const state = writeEmbedding(context);
  return writeLayers(context, state, writeLayer);
}

/** The hidden states before the first layer. */
export function writeEmbedding({ graph, parameters }: DecoderContext): ValueId {
  const { embeddingWidth, vocabularySize, embeddingScale: scale } = parameters;
  return graph.segment("embedding", undefined, () =>
    graph.embed("token_embd.weight", embeddingWidth, vocabularySize, { scale }),
  );
}

/** All layers, the last norm and the logits. */
export function writeLayers(context: DecoderContext, embedding: ValueId, write: LayerWriter): Program {
  const { graph, parameters } = context;
  const { vocabularySize, layers, outputNorm = "output_norm" } = parameters;
  let state = embedding;
  for (const [index, spec] of layers.entries()) {
    const layer = { spec, index, isLast: index === layers.length - 1 };
    state = graph.segment(`layer ${index}`, index, () => write(context, layer, state));
  }
  const { hidden, logits } = graph.segment("output", undefined, () => {
    const normed = context.norm(state, outputNorm);
    return { hidden: normed, logits: writeLogits(context, normed, "output") };
  });
  return graph.finish({ kv: kvShapeOf(context.kvLayers, context.states), vocabularySize, hidden, logits });
}

/** The logits of the scored rows among the output rows. */
export function writeLogits({ graph, parameters }: DecoderContext, normed: ValueId, matrix: string): ValueId {
  const { embeddingWidth, vocabularySize, logitSoftCap: softCap, logitScale = 1 } = parameters;
  // Scaling the hidden state scales the logits.
  const scored = graph.scale(graph.selectRows(normed, "scored"), logitScale);
  return graph.matmul(scored, matrix, { inputs: embeddingWidth, outputs: vocabularySize, softCap });
}

/** The layer that most families share. */
export function writeLayer(context: DecoderContext, layer: PlacedLayer, input: ValueId): ValueId {
  const { graph, parameters } = context;
  const { spec, index } = layer;
  const block = `blk.${index}`;
  const { residualScale = 1 } = parameters;
  const { norms, feedForward } = spec;
  if (spec.mixer.kind === "none") {
    const read = layer.isLast ? graph.selectRows(input, "outputs") : input;
    return writeFed(context, spec, block, read);
  }
  const normed = normAt(context, norms, block, "beforeMixer", input);
  const mixed = writeMixer(context, layer, normed, input);
  const attended = graph.scale(normAt(context, norms, block, "afterMixer", mixed.result), residualScale);
  const added = graph.add(mixed.residual, attended);
  const middle =
    spec.mixerBeside === undefined ? added : graph.add(added, writeBeside(context, layer, spec.mixerBeside, normed));
  if (spec.parallel !== true || feedForward.kind === "none") return writeFed(context, spec, block, middle);
  const read = layer.isLast ? graph.selectRows(normed, "outputs") : normed;
  return graph.add(middle, graph.scale(writeFeedForward(context, feedForward, block, read), residualScale));
}

/** A layer's feed-forward network with its norms, added to the residual. */
function writeFed(
  context: DecoderContext,
  { norms, feedForward }: LayerSpec,
  block: string,
  residual: ValueId,
): ValueId {
  const { graph, parameters } = context;
  if (feedForward.kind === "none") return residual;
  const read = normAt(context, norms, block, "beforeFeedForward", residual);
  const fed = normAt(context, norms, block, "afterFeedForward", writeFeedForward(context, feedForward, block, read));
  return graph.add(residual, graph.scale(fed, parameters.residualScale ?? 1));
}

/** The mixer of a layer with its output projection, and the residual that the result is added to. */
export function writeMixer(
  context: DecoderContext,
  layer: PlacedLayer,
  normed: ValueId,
  input: ValueId,
): { readonly result: ValueId; readonly residual: ValueId } {
  const { spec, index, isLast } = layer;
  if (spec.mixer.kind === "none") throw new TypeError("a layer without a mixer");
  const mixed = keptRows(context, isLast, writeMixed(context, spec.mixer, index, normed));
  // Before the projection, which backends compute together with the addition of the residual.
  const residual = isLast ? context.graph.selectRows(input, "outputs") : input;
  return { result: writeProjection(context, index, mixed), residual };
}

/** A second mixer of a layer, with its output projection. */
function writeBeside(
  context: DecoderContext,
  { index, isLast }: PlacedLayer,
  mixer: Exclude<MixerSpec, NoSpec>,
  normed: ValueId,
): ValueId {
  return writeProjection(context, index, keptRows(context, isLast, writeMixed(context, mixer, index, normed)));
}

/** What a mixer makes of tokens, and the name of its output projection. */
interface Mixed {
  readonly mixed: ValueId;
  readonly projection: string;
}

/** From here on rows are independent, so the last layer continues with the output rows alone. */
function keptRows({ graph }: DecoderContext, isLast: boolean, { mixed, projection }: Mixed): Mixed {
  return { mixed: isLast ? graph.selectRows(mixed, "outputs") : mixed, projection };
}

function writeProjection({ graph, parameters }: DecoderContext, index: number, { mixed, projection }: Mixed): ValueId {
  return graph.matmul(mixed, `blk.${index}.${projection}`, {
    inputs: graph.width(mixed),
    outputs: parameters.embeddingWidth,
  });
}

function writeMixed(context: DecoderContext, mixer: Exclude<MixerSpec, NoSpec>, index: number, normed: ValueId): Mixed {
  switch (mixer.kind) {
    case "attention":
      return { mixed: writeAttention(context, mixer, index, normed), projection: "attn_output" };
    case "latent-attention":
      return { mixed: writeLatentAttention(context, mixer, index, normed), projection: "attn_output" };
    case "delta-net":
      return { mixed: writeDeltaNet(context, mixer, index, normed), projection: "ssm_out" };
    case "mamba2":
      return { mixed: writeMamba2(context, mixer, index, normed), projection: "ssm_out" };
    case "short-conv":
      return { mixed: writeShortConv(context, mixer, index, normed), projection: "shortconv.out_proj" };
    default:
      return mixer satisfies never;
  }
}

/** The norm at a place of a layer, if it has one there. */
export function normAt(
  context: DecoderContext,
  norms: LayerNorms,
  block: string,
  place: keyof LayerNorms,
  value: ValueId,
): ValueId {
  const name = norms[place];
  return name === undefined ? value : context.norm(value, `${block}.${name}`);
}
