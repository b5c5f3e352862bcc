// The graph of multi-head latent attention (MLA, DeepSeek-V2, arXiv 2405.04434) up to its output projection. In the absorbed
// form queries are projected to the latent space, all heads share the cached latent vectors as keys, and the values are
// part of the keys; files of older converters allow only the expanded form, with keys and values for each head.

import type { ValueId } from "../graph/operation.js";
import { temperatureAttributes } from "./attention-layer.js";
import type { DecoderContext } from "./decoder-context.js";
import type { LatentAttentionSpec } from "./layer.js";

/** Latent attention of a layer; the result is heads × value width columns wide. */
export function writeLatentAttention(
  context: DecoderContext,
  spec: LatentAttentionSpec,
  layer: number,
  input: ValueId,
): ValueId {
  const block = `blk.${layer}`;
  // Right before the query's first matmul, which reads the same rows: backends compute both as one.
  const compressed = compress(context, spec, block, input);
  const query = projectedQuery(context, spec, block, input);
  const [latent, position] = latentParts(context, spec, block, compressed);
  return spec.absorbed
    ? absorbedAttention(context, spec, layer, query, latent, position)
    : expandedAttention(context, spec, layer, query, latent, position);
}

/** Stores the latent vectors of a layer without attending to them. */
export function writeLatentKeys(
  context: DecoderContext,
  spec: LatentAttentionSpec,
  layer: number,
  input: ValueId,
): void {
  const block = `blk.${layer}`;
  if (!spec.absorbed) throw new TypeError("only latent vectors are stored by themselves");
  const [latent, position] = latentParts(context, spec, block, compress(context, spec, block, input));
  storeLatent(context, spec, layer, latent, position);
}

function compress(
  { graph, parameters }: DecoderContext,
  { latentWidth, rope }: LatentAttentionSpec,
  block: string,
  input: ValueId,
): ValueId {
  const outputs = latentWidth + rope.rotaryWidth;
  return graph.matmul(input, `${block}.attn_kv_a_mqa`, { inputs: parameters.embeddingWidth, outputs });
}

/** The normalized latent vector, and the rotated columns that all heads share. */
function latentParts(
  context: DecoderContext,
  { latentWidth, rope }: LatentAttentionSpec,
  block: string,
  compressed: ValueId,
): readonly [latent: ValueId, position: ValueId] {
  const { graph } = context;
  const latent = graph.columns(compressed, "latent", 0, latentWidth);
  const rotated = graph.columns(compressed, "rotated key", latentWidth, rope.rotaryWidth);
  return [
    context.norm(latent, `${block}.attn_kv_a_norm`, latentWidth),
    context.rotate(rotated, 1, rope.rotaryWidth, rope),
  ];
}

/** Stores latent vectors with their rotated columns; returns the layer of the cache. */
function storeLatent(
  context: DecoderContext,
  { latentWidth, rope: { rotaryWidth } }: LatentAttentionSpec,
  layer: number,
  latent: ValueId,
  position: ValueId,
): number {
  const { graph } = context;
  const key = graph.emit("key", {
    kind: "concat-heads",
    left: latent,
    right: position,
    heads: 1,
    leftWidth: latentWidth,
    rightWidth: rotaryWidth,
    rightStride: 0,
    rightOffset: 0,
  });
  const kvLayer = context.addKvLayer(layer, { kvHeads: 1, keyWidth: latentWidth + rotaryWidth, valueWidth: 0 });
  graph.kvWrite(kvLayer, key);
  return kvLayer;
}

function projectedQuery(context: DecoderContext, spec: LatentAttentionSpec, block: string, input: ValueId): ValueId {
  const { graph, parameters } = context;
  const { heads, unrotatedWidth, queryLatentWidth, rope } = spec;
  const headWidth = unrotatedWidth + rope.rotaryWidth;
  const outputs = heads * headWidth;
  const inputs = parameters.embeddingWidth;
  if (queryLatentWidth === undefined) {
    return graph.matmul(input, `${block}.attn_q`, { inputs, outputs });
  }
  const compressed = graph.matmul(input, `${block}.attn_q_a`, { inputs, outputs: queryLatentWidth });
  const normed = context.norm(compressed, `${block}.attn_q_a_norm`, queryLatentWidth);
  return graph.matmul(normed, `${block}.attn_q_b`, { inputs: queryLatentWidth, outputs });
}

function absorbedAttention(
  context: DecoderContext,
  spec: LatentAttentionSpec,
  layer: number,
  query: ValueId,
  latent: ValueId,
  position: ValueId,
): ValueId {
  const block = `blk.${layer}`;
  const { graph } = context;
  const { heads, latentWidth, unrotatedWidth, valueWidth, scale, rope, temperature, first } = spec;
  const { rotaryWidth } = rope;
  const headWidth = unrotatedWidth + rotaryWidth;
  const keyWidth = latentWidth + rotaryWidth;
  // The key is complete and stored before anything happens to the queries: backends compute all of it as one.
  const kvLayer = storeLatent(context, spec, layer, latent, position);
  // Of the columns that are not rotated.
  const absorbed = graph.groupedMatmul(query, `${block}.attn_k_b`, {
    inputs: unrotatedWidth,
    rows: latentWidth,
    matrices: heads,
    slots: heads,
    inputStride: headWidth,
  });
  const fullQuery = graph.emit("query", {
    kind: "concat-heads",
    left: absorbed,
    right: context.rotate(query, heads, headWidth, rope, unrotatedWidth),
    heads,
    leftWidth: latentWidth,
    rightWidth: rotaryWidth,
    rightStride: headWidth,
    rightOffset: unrotatedWidth,
  });
  const attended = graph.attend(fullQuery, {
    layer: kvLayer,
    heads,
    kvHeads: 1,
    keyWidth,
    valueWidth: latentWidth,
    scale,
    valuesInKeys: true,
    ...(first === undefined ? {} : { first }),
    ...temperatureAttributes(temperature),
  });
  return graph.groupedMatmul(attended, `${block}.attn_v_b`, {
    inputs: latentWidth,
    rows: valueWidth,
    matrices: heads,
    slots: heads,
    inputStride: latentWidth,
  });
}

function expandedAttention(
  context: DecoderContext,
  { heads, latentWidth, unrotatedWidth, valueWidth, scale, rope, temperature }: LatentAttentionSpec,
  layer: number,
  query: ValueId,
  latent: ValueId,
  position: ValueId,
): ValueId {
  const { graph } = context;
  const keyWidth = unrotatedWidth + rope.rotaryWidth;
  const expand = (firstOutput: number, outputs: number): ValueId =>
    graph.groupedMatmul(latent, `blk.${layer}.attn_kv_b`, {
      inputs: latentWidth,
      rows: unrotatedWidth + valueWidth,
      matrices: heads,
      slots: heads,
      firstOutput,
      outputs,
      flat: true,
    });
  const key = graph.emit("key", {
    kind: "concat-heads",
    left: expand(0, unrotatedWidth),
    right: position,
    heads,
    leftWidth: unrotatedWidth,
    rightWidth: rope.rotaryWidth,
    rightStride: 0,
    rightOffset: 0,
  });
  const rotated = context.rotate(query, heads, keyWidth, rope, unrotatedWidth);
  return graph.attention(rotated, key, expand(unrotatedWidth, valueWidth), {
    layer: context.addKvLayer(layer, { kvHeads: heads, keyWidth, valueWidth }),
    heads,
    kvHeads: heads,
    keyWidth,
    valueWidth,
    scale,
    ...temperatureAttributes(temperature),
  });
}
