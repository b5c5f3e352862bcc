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
import type { LayerNorms, LayerSpec } from "./layer.js";

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
  const { embeddingWidth, vocabularySize, logitSoftCap: softCap, logitScale = 1, layers } = parameters;
  let state = embedding;
  for (const [index, spec] of layers.entries()) {
    const layer = { spec, index, isLast: index === layers.length - 1 };
    state = graph.segment(`layer ${index}`, index, () => write(context, layer, state));
  }
  const { hidden, logits } = graph.segment("output", undefined, () => {
    const normed = context.norm(state, "output_norm");
    // Scaling the hidden state scales the logits.
    const scored = graph.scale(graph.selectRows(normed, "scored"), logitScale);
    return {
      hidden: normed,
      logits: graph.matmul(scored, "output", { inputs: embeddingWidth, outputs: vocabularySize, softCap }),
    };
  });
  return graph.finish({ kv: kvShapeOf(context.kvLayers), vocabularySize, hidden, logits });
}

/** The layer that most families share. */
function writeLayer(context: DecoderContext, layer: PlacedLayer, input: ValueId): ValueId {
  const { graph, parameters } = context;
  const { spec, index } = layer;
  const block = `blk.${index}`;
  const { residualScale = 1 } = parameters;
  const normed = normAt(context, spec.norms, block, "beforeMixer", input);
  const mixed = writeMixer(context, layer, normed, input);
  const attended = graph.scale(normAt(context, spec.norms, block, "afterMixer", mixed.result), residualScale);
  if (spec.parallel === true) {
    const read = layer.isLast ? graph.selectRows(normed, "outputs") : normed;
    const fed = writeFeedForward(context, spec.feedForward, block, read);
    return graph.add(graph.add(mixed.residual, attended), graph.scale(fed, residualScale));
  }
  const middle = graph.add(mixed.residual, attended);
  const fed = writeFeedForward(
    context,
    spec.feedForward,
    block,
    normAt(context, spec.norms, block, "beforeFeedForward", middle),
  );
  return graph.add(middle, graph.scale(normAt(context, spec.norms, block, "afterFeedForward", fed), residualScale));
}

/** Attention of a layer with its output projection, and the residual that the result is added to. */
export function writeMixer(
  context: DecoderContext,
  { spec: { mixer }, index, isLast }: PlacedLayer,
  normed: ValueId,
  input: ValueId,
): { readonly result: ValueId; readonly residual: ValueId } {
  const { graph } = context;
  let attended =
    mixer.kind === "attention"
      ? writeAttention(context, mixer, index, normed)
      : writeLatentAttention(context, mixer, index, normed);
  let residual = input;
  // From here on rows are independent, so the last layer continues with the output rows alone.
  if (isLast) {
    attended = graph.selectRows(attended, "outputs");
    residual = graph.selectRows(residual, "outputs");
  }
  const result = graph.matmul(attended, `blk.${index}.attn_output`, {
    inputs: mixer.heads * mixer.valueWidth,
    outputs: context.parameters.embeddingWidth,
  });
  return { result, residual };
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
