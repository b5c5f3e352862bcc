// The graphs of recurrent layers up to their output projections: gated delta net, Mamba-2 and short convolution.

import type { ValueId } from "../graph/operation.js";
import type { DecoderContext } from "./decoder-context.js";
import type { DeltaNetSpec, Mamba2Spec, ShortConvSpec } from "./layer.js";

/** A gated delta net; the result is value heads × head width columns wide. */
export function writeDeltaNet(context: DecoderContext, spec: DeltaNetSpec, layer: number, input: ValueId): ValueId {
  const { graph, parameters } = context;
  const { keyHeads, valueHeads, headWidth, taps, keyHeadOrder } = spec;
  const block = `blk.${layer}`;
  const { mixed, gate } = projectDeltaNet(context, spec, block, input);
  const { alpha, beta } = projectRates(context, spec, block, input);
  const convolved = writeCausalConv(context, `${block}.ssm_conv1d`, taps, mixed, "silu");
  const result = graph.emit("delta net", {
    kind: "delta-net",
    state: context.addState(valueHeads * headWidth * headWidth),
    input: convolved,
    alpha,
    beta,
    decay: graph.vector(`${block}.ssm_a`, valueHeads),
    bias: graph.vector(`${block}.ssm_dt.bias`, valueHeads),
    keyHeads,
    valueHeads,
    headWidth,
    keyHeadOrder,
    epsilon: parameters.normEpsilon,
  });
  const normed = graph.rmsNorm(result, `${block}.ssm_norm`, parameters.normEpsilon, headWidth);
  return graph.glu(gate, normed, "silu");
}

/** Queries, keys and values of all heads, and the output gate. Older files have them in one tensor, key head by key head. */
function projectDeltaNet(
  { graph, parameters }: DecoderContext,
  { keyHeads, valueHeads, headWidth }: DeltaNetSpec,
  block: string,
  input: ValueId,
): { readonly mixed: ValueId; readonly gate: ValueId } {
  const inputs = parameters.embeddingWidth;
  const keyWidth = keyHeads * headWidth;
  const valueWidth = valueHeads * headWidth;
  if (!graph.hasTensor(`${block}.ssm_in.weight`))
    return {
      mixed: graph.matmul(input, `${block}.attn_qkv`, { inputs, outputs: 2 * keyWidth + valueWidth }),
      gate: graph.matmul(input, `${block}.attn_gate`, { inputs, outputs: valueWidth }),
    };
  const fused = graph.matmul(input, `${block}.ssm_in`, { inputs, outputs: 2 * (keyWidth + valueWidth) });
  const shared = valueWidth / keyHeads;
  const part = (name: string, offset: number, width: number): ValueId =>
    graph.headColumns(fused, name, { heads: keyHeads, offset, width });
  const query = part("query", 0, headWidth);
  const key = part("key", headWidth, headWidth);
  const value = part("value", 2 * headWidth, shared);
  const join = (left: ValueId, right: ValueId): ValueId =>
    graph.emit("joined", {
      kind: "concat-heads",
      left,
      right,
      heads: 1,
      leftWidth: graph.width(left),
      rightWidth: graph.width(right),
      rightStride: graph.width(right),
      rightOffset: 0,
    });
  return { mixed: join(join(query, key), value), gate: part("gate", 2 * headWidth + shared, shared) };
}

/** Decay and step size of each value head before their functions; some files have both in one tensor. */
function projectRates(
  { graph, parameters }: DecoderContext,
  { keyHeads, valueHeads }: DeltaNetSpec,
  block: string,
  input: ValueId,
): { readonly alpha: ValueId; readonly beta: ValueId } {
  const inputs = parameters.embeddingWidth;
  if (!graph.hasTensor(`${block}.ssm_ba.weight`))
    return {
      alpha: graph.matmul(input, `${block}.ssm_alpha`, { inputs, outputs: valueHeads }),
      beta: graph.matmul(input, `${block}.ssm_beta`, { inputs, outputs: valueHeads }),
    };
  const both = graph.matmul(input, `${block}.ssm_ba`, { inputs, outputs: 2 * valueHeads });
  const width = valueHeads / keyHeads;
  return {
    alpha: graph.headColumns(both, "alpha", { heads: keyHeads, offset: width, width }),
    beta: graph.headColumns(both, "beta", { heads: keyHeads, offset: 0, width }),
  };
}

/** Mamba-2; the result is heads × head width columns wide. */
export function writeMamba2(context: DecoderContext, spec: Mamba2Spec, layer: number, input: ValueId): ValueId {
  const { graph, parameters } = context;
  const { heads, headWidth, groups, stateWidth, taps } = spec;
  const block = `blk.${layer}`;
  const inner = heads * headWidth;
  const mixedWidth = inner + 2 * groups * stateWidth;
  const projected = graph.matmul(input, `${block}.ssm_in`, {
    inputs: parameters.embeddingWidth,
    outputs: inner + mixedWidth + heads,
  });
  const mixed = graph.columns(projected, "mixed", inner, mixedWidth);
  const convolved = writeCausalConv(context, `${block}.ssm_conv1d`, taps, mixed, "silu");
  const result = graph.emit("ssm scan", {
    kind: "ssm-scan",
    state: context.addState(inner * stateWidth),
    input: convolved,
    step: graph.columns(projected, "step", inner + mixedWidth, heads),
    decay: graph.table(`${block}.ssm_a`, [1, heads]),
    bias: graph.vector(`${block}.ssm_dt.bias`, heads),
    skip: graph.table(`${block}.ssm_d`, [1, heads]),
    heads,
    headWidth,
    groups,
    stateWidth,
  });
  const gated = graph.glu(graph.columns(projected, "gate", 0, inner), result, "silu");
  const norm = `${block}.ssm_norm.weight`;
  if (!graph.hasTensor(norm)) return gated;
  return graph.emit("ssm norm", {
    kind: "rms-norm",
    input: gated,
    weight: graph.table(norm, [inner / groups, groups]),
    groupWidth: inner / groups,
    ...(groups === 1 ? {} : { rowWeights: true }),
    epsilon: parameters.normEpsilon,
  });
}

/** A gated short convolution; the result is as wide as the embeddings. */
export function writeShortConv(
  context: DecoderContext,
  { taps }: ShortConvSpec,
  layer: number,
  input: ValueId,
): ValueId {
  const { graph, parameters } = context;
  const width = parameters.embeddingWidth;
  const block = `blk.${layer}`;
  const projected = graph.matmul(input, `${block}.shortconv.in_proj`, { inputs: width, outputs: 3 * width });
  const [before, after, value] = ["gate before", "gate after", "value"].map((name, index) =>
    graph.columns(projected, name, index * width, width),
  );
  const convolved = writeCausalConv(
    context,
    `${block}.shortconv.conv`,
    taps,
    graph.glu(before, value, "identity"),
    undefined,
  );
  return graph.glu(after, convolved, "identity");
}

function writeCausalConv(
  context: DecoderContext,
  name: string,
  taps: number,
  input: ValueId,
  activation: "silu" | undefined,
): ValueId {
  const { graph } = context;
  const width = graph.width(input);
  const bias = graph.optionalVector(`${name}.bias`, width);
  return graph.emit(name, {
    kind: "causal-conv",
    state: context.addState((taps - 1) * width),
    input,
    weight: graph.table(`${name}.weight`, [taps, width]),
    ...(bias === undefined ? {} : { bias }),
    ...(activation === undefined ? {} : { activation }),
  });
}
