// The graph of an attention layer up to its output projection: projections, norms, rotation, cache and attention.

import type { ValueId } from "../graph/operation.js";
import type { DecoderContext } from "./decoder-context.js";
import type { AttentionSpec, AttentionTemperature } from "./layer.js";

interface Projections {
  readonly query: ValueId;
  /** The output gate, if there is one. */
  readonly gate?: ValueId;
  /** Undefined if another layer's keys and values are used. */
  readonly stored?: { readonly key: ValueId; readonly value: ValueId };
}

/** Attention of a layer; the result is heads × value width columns wide. */
export function writeAttention(context: DecoderContext, spec: AttentionSpec, layer: number, input: ValueId): ValueId {
  const block = `blk.${layer}`;
  const projections = project(context, spec, block, input);
  const attended = attend(context, spec, layer, block, projections);
  return projections.gate === undefined ? attended : context.graph.glu(projections.gate, attended, "sigmoid");
}

/** Stores keys and values of a layer without attending to them. */
export function writeKeysAndValues(context: DecoderContext, spec: AttentionSpec, layer: number, input: ValueId): void {
  const block = `blk.${layer}`;
  const { kvHeads, keyWidth, valueWidth } = spec;
  const inputs = context.parameters.embeddingWidth;
  const key = context.graph.matmul(input, `${block}.attn_k`, { inputs, outputs: kvHeads * keyWidth });
  const value = context.graph.matmul(input, `${block}.attn_v`, { inputs, outputs: kvHeads * valueWidth });
  const stored = prepared(context, spec, block, key, "attn_k_norm", kvHeads);
  context.graph.kvWrite(context.addKvLayer(layer, { kvHeads, keyWidth, valueWidth }), stored, value);
}

function attend(
  context: DecoderContext,
  spec: AttentionSpec,
  layer: number,
  block: string,
  { query: projectedQuery, stored }: Projections,
): ValueId {
  const { kvOfLayer } = spec;
  if (stored === undefined) {
    if (kvOfLayer === undefined) throw new TypeError("a layer without keys and values names no other layer");
    const query = prepared(context, spec, block, projectedQuery, "attn_q_norm", spec.heads);
    return context.graph.attend(query, attributes(context, spec, block, context.kvLayerOf(kvOfLayer)));
  }
  const { kvHeads, keyWidth, valueWidth, valueNorm = false } = spec;
  // All norms first, so that both rotations and the write to the cache are neighbours and can be fused.
  const value = valueNorm
    ? context.graph.unweightedRmsNorm(stored.value, context.parameters.normEpsilon, valueWidth)
    : stored.value;
  const [query, key] = preparedPair(context, spec, block, projectedQuery, stored.key);
  const kvLayer = context.addKvLayer(layer, { kvHeads, keyWidth, valueWidth });
  return context.graph.attention(query, key, value, attributes(context, spec, block, kvLayer));
}

/** Temperature as attributes of the operation. */
export function temperatureAttributes(temperature: AttentionTemperature | undefined): object {
  if (temperature === undefined) return {};
  const { scale, length, offset } = temperature;
  return { temperature: scale, temperatureLength: length, temperatureOffset: offset };
}

function attributes(
  { graph }: DecoderContext,
  { heads, kvHeads, keyWidth, valueWidth, scale, window, chunk, first, temperature, softCap, sinks }: AttentionSpec,
  block: string,
  layer: number,
): Parameters<typeof graph.attend>[1] {
  return {
    layer,
    heads,
    kvHeads,
    keyWidth,
    valueWidth,
    scale,
    ...(window === undefined ? {} : { window }),
    ...(chunk === undefined ? {} : { chunk }),
    ...(first === undefined ? {} : { first }),
    ...temperatureAttributes(temperature),
    ...(softCap === undefined ? {} : { softCap }),
    ...(sinks ? { sinks: graph.vector(`${block}.attn_sinks.weight`, heads) } : {}),
  };
}

/** Queries and keys, normalized and rotated. */
function preparedPair(
  context: DecoderContext,
  spec: AttentionSpec,
  block: string,
  query: ValueId,
  key: ValueId,
): readonly [query: ValueId, key: ValueId] {
  if (spec.queryKeyNorm?.place === "after-rope") {
    return [
      prepared(context, spec, block, query, "attn_q_norm", spec.heads),
      prepared(context, spec, block, key, "attn_k_norm", spec.kvHeads),
    ];
  }
  const normedQuery = normed(context, spec, block, query, "attn_q_norm");
  const normedKey = normed(context, spec, block, key, "attn_k_norm");
  return [rotated(context, spec, normedQuery, spec.heads), rotated(context, spec, normedKey, spec.kvHeads)];
}

function prepared(
  context: DecoderContext,
  spec: AttentionSpec,
  block: string,
  value: ValueId,
  name: string,
  heads: number,
): ValueId {
  return spec.queryKeyNorm?.place === "after-rope"
    ? normed(context, spec, block, rotated(context, spec, value, heads), name)
    : rotated(context, spec, normed(context, spec, block, value, name), heads);
}

function rotated(context: DecoderContext, { rope, keyWidth }: AttentionSpec, value: ValueId, heads: number): ValueId {
  return rope === undefined ? value : context.rotate(value, heads, keyWidth, rope);
}

function normed(
  { graph, parameters }: DecoderContext,
  { queryKeyNorm, keyWidth }: AttentionSpec,
  block: string,
  value: ValueId,
  name: string,
): ValueId {
  if (queryKeyNorm === undefined) return value;
  const width = queryKeyNorm.span === "row" ? graph.width(value) : keyWidth;
  return queryKeyNorm.weighted
    ? graph.rmsNorm(value, `${block}.${name}`, parameters.normEpsilon, width)
    : graph.unweightedRmsNorm(value, parameters.normEpsilon, width);
}

/** Three matmuls, or one whose columns are queries, keys and values in this order. */
function project(context: DecoderContext, spec: AttentionSpec, block: string, input: ValueId): Projections {
  const { graph, parameters } = context;
  const inputs = parameters.embeddingWidth;
  const queryWidth = spec.heads * spec.keyWidth;
  const keyWidth = spec.kvHeads * spec.keyWidth;
  const valueWidth = spec.kvHeads * spec.valueWidth;
  if (spec.kvOfLayer === undefined && graph.hasTensor(`${block}.attn_qkv.weight`)) {
    const separate = ["attn_q", "attn_k", "attn_v"].map((part) => `${block}.${part}.bias`);
    context.refuseTensor(
      separate,
      "beside a fused matmul for queries, keys and values, whose bias has to be attn_qkv.bias",
    );
    const fused = graph.matmul(input, `${block}.attn_qkv`, { inputs, outputs: queryWidth + keyWidth + valueWidth });
    return {
      query: graph.columns(fused, "query", 0, queryWidth),
      stored: {
        key: graph.columns(fused, "key", queryWidth, keyWidth),
        value: graph.columns(fused, "value", queryWidth + keyWidth, valueWidth),
      },
    };
  }
  const { outputGate = false } = spec;
  const projected = graph.matmul(input, `${block}.attn_q`, { inputs, outputs: queryWidth * (outputGate ? 2 : 1) });
  if (spec.kvOfLayer !== undefined) return queryAndGate(context, spec, projected);
  // All matmuls first, so that they are neighbours and can be fused.
  const key = graph.matmul(input, `${block}.attn_k`, { inputs, outputs: keyWidth });
  const value =
    spec.keysAsValues === true ? key : graph.matmul(input, `${block}.attn_v`, { inputs, outputs: valueWidth });
  return { ...queryAndGate(context, spec, projected), stored: { key, value } };
}

/** Queries, and the output gate that follows the query of each head. */
function queryAndGate(
  { graph }: DecoderContext,
  { heads, keyWidth, outputGate = false }: AttentionSpec,
  projected: ValueId,
): Pick<Projections, "query" | "gate"> {
  if (!outputGate) return { query: projected };
  return {
    query: graph.headColumns(projected, "query", { heads, offset: 0, width: keyWidth }),
    gate: graph.headColumns(projected, "gate", { heads, offset: keyWidth, width: keyWidth }),
  };
}
