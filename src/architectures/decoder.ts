// The decoder graph that families share, written once over their list of layers. A family that does not fit writes its
// own `buildGraph` with the same operations.

import { ModelError } from "../errors.js";
import type { GraphBuilder } from "../graph/builder.js";
import type { RopeId, ValueId } from "../graph/operation.js";
import { type KvLayerShape, kvShapeOf, type Program } from "../graph/program.js";
import type { HyperParameters } from "./descriptor.js";
import type { AttentionSpec, FeedForwardSpec, LayerNorms, LayerSpec, RopeSpec } from "./layer.js";
import { ropeTable } from "./rope.js";

/** Writes the graph of a decoder-only transformer over its layer specifications. */
export function buildDecoder(graph: GraphBuilder, parameters: HyperParameters): Program {
  return new Decoder(graph, parameters).program();
}

/** A layer's position in the model. */
interface LayerContext {
  /** Prefix of the layer's tensors. */
  readonly block: string;
  readonly isLast: boolean;
}

class Decoder {
  readonly #graph: GraphBuilder;
  readonly #parameters: HyperParameters;
  readonly #ropes = new Map<RopeSpec, RopeId>();
  /** KV shapes of the layers with attention; the index is the layer in the cache. */
  readonly #kvLayers: KvLayerShape[] = [];

  constructor(graph: GraphBuilder, parameters: HyperParameters) {
    this.#graph = graph;
    this.#parameters = parameters;
  }

  program(): Program {
    const { embeddingWidth, vocabularySize, embeddingScale: scale, logitSoftCap: softCap, layers } = this.#parameters;
    const graph = this.#graph;
    let state = graph.segment("embedding", undefined, () =>
      graph.embed("token_embd.weight", embeddingWidth, vocabularySize, { scale }),
    );
    for (const [index, layer] of layers.entries()) {
      const context = { block: `blk.${index}`, isLast: index === layers.length - 1 };
      state = graph.segment(`layer ${index}`, index, () => this.#layer(layer, context, state));
    }
    const { hidden, logits } = graph.segment("output", undefined, () => {
      const normed = this.#norm(state, "output_norm");
      const scored = graph.selectRows(normed, "scored");
      return {
        hidden: normed,
        logits: graph.matmul(scored, "output", { inputs: embeddingWidth, outputs: vocabularySize, softCap }),
      };
    });
    return graph.finish({ kv: kvShapeOf(this.#kvLayers), vocabularySize, hidden, logits });
  }

  #layer({ mixer, feedForward, norms }: LayerSpec, context: LayerContext, input: ValueId): ValueId {
    const graph = this.#graph;
    const norm = (value: ValueId, place: keyof LayerNorms): ValueId => {
      const name = norms[place];
      return name === undefined ? value : this.#norm(value, `${context.block}.${name}`);
    };
    let attended = this.#attention(mixer, context.block, norm(input, "beforeMixer"));
    let residual = input;
    // From here on rows are independent, so the last layer continues with the output rows alone.
    if (context.isLast) {
      attended = graph.selectRows(attended, "outputs");
      residual = graph.selectRows(residual, "outputs");
    }
    const projected = graph.matmul(attended, `${context.block}.attn_output`, {
      inputs: mixer.heads * mixer.valueWidth,
      outputs: this.#parameters.embeddingWidth,
    });
    const middle = graph.add(residual, norm(projected, "afterMixer"));
    const fed = this.#feedForward(feedForward, context.block, norm(middle, "beforeFeedForward"));
    return graph.add(middle, norm(fed, "afterFeedForward"));
  }

  #attention(spec: AttentionSpec, block: string, normed: ValueId): ValueId {
    const { heads, kvHeads, keyWidth, valueWidth, scale, window, softCap } = spec;
    const split = this.#queryKeyValue(spec, block, normed);
    const normHeads = (value: ValueId, name: string): ValueId =>
      spec.queryKeyNorm ? this.#norm(value, `${block}.${name}`, keyWidth) : value;
    // Both norms first, so that both rotations and the write to the cache are neighbours and can be fused.
    const normedQuery = normHeads(split.query, "attn_q_norm");
    const normedKey = normHeads(split.key, "attn_k_norm");
    const query = this.#rotate(normedQuery, heads, spec);
    const key = this.#rotate(normedKey, kvHeads, spec);
    return this.#graph.attention(query, key, split.value, {
      layer: this.#kvLayers.push({ kvHeads, keyWidth, valueWidth }) - 1,
      heads,
      kvHeads,
      keyWidth,
      valueWidth,
      scale,
      ...(window === undefined ? {} : { window }),
      ...(softCap === undefined ? {} : { softCap }),
      ...(spec.sinks ? { sinks: this.#graph.vector(`${block}.attn_sinks.weight`, heads) } : {}),
    });
  }

  #rotate(value: ValueId, heads: number, { rope, keyWidth: headWidth }: AttentionSpec): ValueId {
    if (rope === undefined) return value;
    const { style, rotaryWidth } = rope;
    const factors = rope.factors === undefined ? undefined : this.#graph.optionalVector(rope.factors, rotaryWidth / 2);
    return this.#graph.rope(value, {
      heads,
      headWidth,
      rotaryWidth,
      style,
      rope: this.#ropeId(rope),
      ...(factors === undefined ? {} : { factors }),
    });
  }

  #ropeId(rope: RopeSpec): RopeId {
    const known = this.#ropes.get(rope);
    if (known !== undefined) return known;
    const id = this.#graph.ropeTable(ropeTable(rope));
    this.#ropes.set(rope, id);
    return id;
  }

  /** Three matmuls, or one whose columns are queries, keys and values in this order. */
  #queryKeyValue(
    spec: AttentionSpec,
    block: string,
    normed: ValueId,
  ): { readonly query: ValueId; readonly key: ValueId; readonly value: ValueId } {
    const graph = this.#graph;
    const inputs = this.#parameters.embeddingWidth;
    const queryWidth = spec.heads * spec.keyWidth;
    const keyWidth = spec.kvHeads * spec.keyWidth;
    const valueWidth = spec.kvHeads * spec.valueWidth;
    if (graph.hasTensor(`${block}.attn_qkv.weight`)) {
      refuseSeparateBiases(graph, block, this.#parameters.architecture);
      const fused = graph.matmul(normed, `${block}.attn_qkv`, { inputs, outputs: queryWidth + keyWidth + valueWidth });
      return {
        query: graph.columns(fused, "query", 0, queryWidth),
        key: graph.columns(fused, "key", queryWidth, keyWidth),
        value: graph.columns(fused, "value", queryWidth + keyWidth, valueWidth),
      };
    }
    return {
      query: graph.matmul(normed, `${block}.attn_q`, { inputs, outputs: queryWidth }),
      key: graph.matmul(normed, `${block}.attn_k`, { inputs, outputs: keyWidth }),
      value: graph.matmul(normed, `${block}.attn_v`, { inputs, outputs: valueWidth }),
    };
  }

  #feedForward({ width, activation, gateAndUp }: FeedForwardSpec, block: string, normed: ValueId): ValueId {
    const graph = this.#graph;
    const inputs = this.#parameters.embeddingWidth;
    let activated: ValueId;
    switch (gateAndUp) {
      case "fused": {
        const both = graph.matmul(normed, `${block}.ffn_up`, { inputs, outputs: 2 * width });
        const [gate, up] = [graph.columns(both, "gate", 0, width), graph.columns(both, "up", width, width)];
        activated = graph.glu(gate, up, activation);
        break;
      }
      case "separate": {
        const gate = graph.matmul(normed, `${block}.ffn_gate`, { inputs, outputs: width });
        const up = graph.matmul(normed, `${block}.ffn_up`, { inputs, outputs: width });
        activated = graph.glu(gate, up, activation);
        break;
      }
      default:
        gateAndUp satisfies never;
        throw new TypeError("unreachable");
    }
    return graph.matmul(activated, `${block}.ffn_down`, { inputs: width, outputs: inputs });
  }

  #norm(value: ValueId, name: string, groupWidth?: number): ValueId {
    return this.#graph.rmsNorm(value, name, this.#parameters.normEpsilon, groupWidth);
  }
}

/** Biases of three matmuls beside one fused matmul would be ignored silently. */
function refuseSeparateBiases(graph: GraphBuilder, block: string, architecture: string): void {
  const stray = ["attn_q", "attn_k", "attn_v"]
    .map((part) => `${block}.${part}.bias`)
    .find((name) => graph.hasTensor(name));
  if (stray === undefined) return;
  throw new ModelError(
    "MODEL_UNSUPPORTED",
    `[${architecture}] ${stray} is given beside a fused matmul for queries, keys and values, whose bias has to be attn_qkv.bias`,
    { details: { architecture, tensor: stray } },
  );
}
