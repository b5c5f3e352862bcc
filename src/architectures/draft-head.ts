// The graphs of a draft head (MTP): one more layer that drafts token p + 2 from the hidden state of position p and token
// p + 1. Its row of position p + 1 is stored in a layer of the KV cache of its own. Two programs share the cache: the
// model's own, which also stores the head's keys and values of every token, and the head alone, which drafts. The hidden state
// passes from one step to the next as a recurrent state.

import type { GraphBuilder } from "../graph/builder.js";
import type { StateId, ValueId } from "../graph/operation.js";
import { kvLayers, kvShapeOf, type Program } from "../graph/program.js";
import { writeKeysAndValues } from "./attention-layer.js";
import { normAt, writeEmbedding, writeLayer, writeLogits } from "./decoder.js";
import { DecoderContext } from "./decoder-context.js";
import type { DraftHeadSpec, HyperParameters } from "./descriptor.js";
import { writeLatentKeys } from "./latent-attention-layer.js";

/** The graph of a decoder that also stores what its draft head attends to. */
export function buildWithDraftHead(graph: GraphBuilder, parameters: HyperParameters): Program {
  const head = requireHead(parameters);
  const context = new DecoderContext(graph, parameters);
  const { vocabularySize, layers, outputNorm = "output_norm" } = parameters;
  const embedding = writeEmbedding(context);
  let state = embedding;
  // All rows of the last layer are needed: the head reads the hidden states of all tokens.
  for (const [index, spec] of layers.entries())
    state = graph.segment(`layer ${index}`, index, () => writeLayer(context, { spec, index, isLast: false }, state));
  const tokens = hasOwnEmbedding(context, head) ? writeDraftEmbedding(context, head) : embedding;
  const { hidden, logits } = graph.segment("output", undefined, () => {
    const normed = context.norm(state, outputNorm);
    const outputs = graph.selectRows(normed, "outputs");
    storeDraftRows(context, head, tokens, normed);
    return { hidden: outputs, logits: writeLogits(context, outputs, "output") };
  });
  return graph.finish({ kv: kvShapeOf(context.kvLayers, context.states), vocabularySize, hidden, logits });
}

/** The graph of a draft head alone, for the cache of a program that `buildWithDraftHead` has written. */
export function buildDraftHead(graph: GraphBuilder, parameters: HyperParameters, { kv }: Program): Program {
  const head = requireHead(parameters);
  const { vocabularySize, embeddingWidth } = parameters;
  const states = kv.states ?? [];
  const context = new DecoderContext(graph, parameters, {
    kvLayers: kvLayers(kv).slice(0, -1),
    states: states.slice(0, -1),
  });
  const state = context.addState(embeddingWidth);
  const embedding = writeDraftEmbedding(context, head);
  const { hidden, logits } = graph.segment(`draft head`, head.block, () => {
    const before = graph.emit("hidden state", { kind: "previous-row", state, width: embeddingWidth });
    const joined = writeJoined(context, head, embedding, before);
    const layer = { spec: head.layer, index: head.block, isLast: false };
    const normed = writeHeadNorm(context, head, writeLayer(context, layer, joined));
    graph.stateWrite(state, normed);
    const outputs = graph.selectRows(normed, "outputs");
    const own = `blk.${head.block}.nextn.shared_head_head`;
    return {
      hidden: outputs,
      logits: writeLogits(context, outputs, graph.hasTensor(`${own}.weight`) ? own : "output"),
    };
  });
  return graph.finish({ kv, vocabularySize, hidden, logits });
}

function requireHead({ draftHead, architecture }: HyperParameters): DraftHeadSpec {
  if (draftHead === undefined) throw new TypeError(`${architecture}: the model has no draft head`);
  return draftHead;
}

/** Stores keys and values of the head for all tokens, and the last hidden state for the next step. */
function storeDraftRows(context: DecoderContext, head: DraftHeadSpec, embedding: ValueId, normed: ValueId): void {
  const state = context.addState(context.parameters.embeddingWidth);
  const before = writePrevious(context, state, normed);
  const joined = writeJoined(context, head, embedding, before);
  const { layer, block } = head;
  const read = normAt(context, layer.norms, `blk.${block}`, "beforeMixer", joined);
  if (layer.mixer.kind === "attention") writeKeysAndValues(context, layer.mixer, block, read);
  else if (layer.mixer.kind === "latent-attention") writeLatentKeys(context, layer.mixer, block, read);
  else throw new TypeError("a draft head has attention");
}

function writePrevious({ graph, parameters }: DecoderContext, state: StateId, input: ValueId): ValueId {
  const before = graph.emit("hidden state", {
    kind: "previous-row",
    state,
    input,
    width: parameters.embeddingWidth,
  });
  graph.stateWrite(state, input);
  return before;
}

/** Embeddings of the tokens, by a table of the head's own if it has one. */
function writeDraftEmbedding(context: DecoderContext, head: DraftHeadSpec): ValueId {
  if (!hasOwnEmbedding(context, head)) return writeEmbedding(context);
  const { graph, parameters } = context;
  const { embeddingWidth, vocabularySize } = parameters;
  return graph.segment("draft embedding", head.block, () =>
    graph.embed(embeddingTable(head), embeddingWidth, vocabularySize),
  );
}

function hasOwnEmbedding({ graph }: DecoderContext, head: DraftHeadSpec): boolean {
  return graph.hasTensor(embeddingTable(head));
}

function embeddingTable({ block }: DraftHeadSpec): string {
  return `blk.${block}.nextn.embed_tokens.weight`;
}

/** The projection of a token's embedding and the hidden state before it, both normalized. */
function writeJoined(context: DecoderContext, { block }: DraftHeadSpec, embedding: ValueId, hidden: ValueId): ValueId {
  const { graph, parameters } = context;
  const { embeddingWidth, normEpsilon } = parameters;
  const name = `blk.${block}.nextn`;
  const both = graph.emit("embedding and hidden state", {
    kind: "concat-heads",
    left: graph.rmsNorm(embedding, `${name}.enorm`, normEpsilon),
    right: graph.rmsNorm(hidden, `${name}.hnorm`, normEpsilon),
    heads: 1,
    leftWidth: embeddingWidth,
    rightWidth: embeddingWidth,
    rightStride: embeddingWidth,
    rightOffset: 0,
  });
  return graph.matmul(both, `${name}.eh_proj`, { inputs: 2 * embeddingWidth, outputs: embeddingWidth });
}

function writeHeadNorm(context: DecoderContext, { block, norm, normEpsilon }: DraftHeadSpec, value: ValueId): ValueId {
  const { graph, parameters } = context;
  const own = `blk.${block}.nextn.shared_head_norm`;
  const { outputNorm = "output_norm" } = parameters;
  const name = graph.hasTensor(`${own}.weight`) ? own : outputNorm;
  return norm === "layer" ? graph.layerNorm(value, name, normEpsilon) : graph.rmsNorm(value, name, normEpsilon);
}
