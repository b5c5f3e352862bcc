// The decoder graph that today's families share, written once over their traits. A family that does not fit writes
// its own `buildGraph` instead of adding a flag here.

import { ModelError } from "../errors.js";
import type { GraphBuilder } from "../graph/builder.js";
import type { RopeId, ValueId, WeightId } from "../graph/operation.js";
import type { Program } from "../graph/program.js";
import type { ArchitectureTraits, HyperParameters } from "./descriptor.js";
import { ropeTable } from "./rope.js";

interface LayerContext {
  readonly graph: GraphBuilder;
  readonly parameters: HyperParameters;
  readonly traits: ArchitectureTraits;
  readonly rope: RopeId;
  readonly ropeFactors: WeightId | undefined;
}

export function buildDecoder(graph: GraphBuilder, parameters: HyperParameters, traits: ArchitectureTraits): Program {
  const { embeddingWidth, vocabularySize, blockCount } = parameters;
  const context: LayerContext = {
    graph,
    parameters,
    traits,
    rope: graph.ropeTable(ropeTable(parameters.rope)),
    ropeFactors:
      traits.ropeFactors === undefined
        ? undefined
        : graph.optionalVector(traits.ropeFactors, parameters.rope.rotaryWidth / 2),
  };
  let state = graph.segment("embedding", undefined, () =>
    graph.embed("token_embd.weight", embeddingWidth, vocabularySize),
  );
  for (let layer = 0; layer < blockCount; layer++) {
    state = graph.segment(`layer ${layer}`, layer, () => decoderLayer(context, layer, state));
  }
  const { hidden, logits } = graph.segment("output", undefined, () => {
    const normed = graph.rmsNorm(state, "output_norm", parameters.normEpsilon);
    const scored = graph.selectRows(normed, "scored");
    return {
      hidden: normed,
      logits: graph.matmul(scored, "output", { inputs: embeddingWidth, outputs: vocabularySize }),
    };
  });
  const { kvHeadCount: kvHeads, keyWidth, valueWidth } = parameters;
  return graph.finish({ kv: { layers: blockCount, kvHeads, keyWidth, valueWidth }, vocabularySize, hidden, logits });
}

function decoderLayer(context: LayerContext, layer: number, input: ValueId): ValueId {
  const { graph, parameters, traits } = context;
  const epsilon = parameters.normEpsilon;
  const after = (value: ValueId, name: string): ValueId =>
    traits.normPlacement === "before-and-after" ? graph.rmsNorm(value, `blk.${layer}.${name}`, epsilon) : value;

  const normed = graph.rmsNorm(input, `blk.${layer}.attn_norm`, epsilon);
  let attended = selfAttention(context, layer, normed);
  let residual = input;
  // From here on rows no longer see each other, so the last layer goes on with the wanted ones alone.
  if (layer === parameters.blockCount - 1) {
    attended = graph.selectRows(attended, "outputs");
    residual = graph.selectRows(residual, "outputs");
  }
  const projected = graph.matmul(attended, `blk.${layer}.attn_output`, {
    inputs: parameters.headCount * parameters.valueWidth,
    outputs: parameters.embeddingWidth,
  });
  const middle = graph.add(residual, after(projected, "post_attention_norm"));
  const fed = feedForward(context, layer, graph.rmsNorm(middle, `blk.${layer}.ffn_norm`, epsilon));
  return graph.add(middle, after(fed, "post_ffw_norm"));
}

function selfAttention(context: LayerContext, layer: number, normed: ValueId): ValueId {
  const { graph, parameters, traits, rope, ropeFactors } = context;
  const { headCount, kvHeadCount, keyWidth, valueWidth } = parameters;
  const split = queryKeyValue(context, layer, normed);
  const rotate = (value: ValueId, heads: number): ValueId =>
    graph.rope(value, {
      heads,
      headWidth: keyWidth,
      rotaryWidth: parameters.rope.rotaryWidth,
      style: parameters.rope.style,
      rope,
      ...(ropeFactors === undefined ? {} : { factors: ropeFactors }),
    });
  const normHeads = (value: ValueId, name: string): ValueId =>
    traits.queryKeyNorm ? graph.rmsNorm(value, `blk.${layer}.${name}`, parameters.normEpsilon, keyWidth) : value;

  // Both norms first, so that both turns and the write to the cache stand side by side and can become one.
  const normedQuery = normHeads(split.query, "attn_q_norm");
  const normedKey = normHeads(split.key, "attn_k_norm");
  const query = rotate(normedQuery, headCount);
  const key = rotate(normedKey, kvHeadCount);
  return graph.attention(query, key, split.value, {
    layer,
    heads: headCount,
    kvHeads: kvHeadCount,
    keyWidth,
    valueWidth,
    scale: 1 / Math.sqrt(keyWidth),
  });
}

/** Three products, or one whose columns are queries, keys and values in this order. */
function queryKeyValue(
  { graph, parameters }: LayerContext,
  layer: number,
  normed: ValueId,
): { readonly query: ValueId; readonly key: ValueId; readonly value: ValueId } {
  const inputs = parameters.embeddingWidth;
  const queryWidth = parameters.headCount * parameters.keyWidth;
  const keyWidth = parameters.kvHeadCount * parameters.keyWidth;
  const valueWidth = parameters.kvHeadCount * parameters.valueWidth;
  if (graph.hasTensor(`blk.${layer}.attn_qkv.weight`)) {
    refuseSeparateBiases(graph, layer, parameters.architecture);
    const fused = graph.matmul(normed, `blk.${layer}.attn_qkv`, {
      inputs,
      outputs: queryWidth + keyWidth + valueWidth,
    });
    return {
      query: graph.columns(fused, "query", 0, queryWidth),
      key: graph.columns(fused, "key", queryWidth, keyWidth),
      value: graph.columns(fused, "value", queryWidth + keyWidth, valueWidth),
    };
  }
  return {
    query: graph.matmul(normed, `blk.${layer}.attn_q`, { inputs, outputs: queryWidth }),
    key: graph.matmul(normed, `blk.${layer}.attn_k`, { inputs, outputs: keyWidth }),
    value: graph.matmul(normed, `blk.${layer}.attn_v`, { inputs, outputs: valueWidth }),
  };
}

/** A bias beside the fused product would be left out without a word. */
function refuseSeparateBiases(graph: GraphBuilder, layer: number, architecture: string): void {
  const stray = ["attn_q", "attn_k", "attn_v"]
    .map((part) => `blk.${layer}.${part}.bias`)
    .find((name) => graph.hasTensor(name));
  if (stray === undefined) return;
  throw new ModelError(
    "MODEL_UNSUPPORTED",
    `[${architecture}] ${stray} stands beside one product for queries, keys and values; its bias must be one too, attn_qkv.bias`,
    { details: { architecture, tensor: stray } },
  );
}

function feedForward({ graph, parameters, traits }: LayerContext, layer: number, normed: ValueId): ValueId {
  const { embeddingWidth: inputs, feedForwardWidth: inner } = parameters;
  let activated: ValueId;
  switch (traits.feedForward) {
    case "fused": {
      const both = graph.matmul(normed, `blk.${layer}.ffn_up`, { inputs, outputs: 2 * inner });
      activated = graph.glu(graph.columns(both, "gate", 0, inner), graph.columns(both, "up", inner, inner), "silu");
      break;
    }
    case "gate-and-up": {
      const gate = graph.matmul(normed, `blk.${layer}.ffn_gate`, { inputs, outputs: inner });
      activated = graph.glu(gate, graph.matmul(normed, `blk.${layer}.ffn_up`, { inputs, outputs: inner }), "silu");
      break;
    }
    default:
      traits.feedForward satisfies never;
      throw new TypeError("unreachable");
  }
  return graph.matmul(activated, `blk.${layer}.ffn_down`, { inputs: inner, outputs: inputs });
}
