// What the parts of a decoder graph share: the graph that is being written, the numbers of the model, rope tables, and the
// layers of the KV cache.

import { ModelError } from "../errors.js";
import type { GraphBuilder } from "../graph/builder.js";
import type { RopeId, StateId, ValueId, WeightId } from "../graph/operation.js";
import type { KvLayerShape } from "../graph/program.js";
import type { HyperParameters } from "./descriptor.js";
import type { RopeSpec } from "./layer.js";
import { ropeTable } from "./rope.js";

/** Layers and recurrent states of a KV cache. */
interface CacheParts {
  readonly kvLayers: readonly KvLayerShape[];
  readonly states: readonly number[];
}

export class DecoderContext {
  readonly graph: GraphBuilder;
  readonly parameters: HyperParameters;
  /** Shapes of the cache's layers, in order. */
  readonly kvLayers: KvLayerShape[] = [];
  /** Elements of the recurrent states, in order. */
  readonly states: number[] = [];
  readonly #ropes = new Map<RopeSpec, RopeId>();
  /** The layer of the cache that each layer of the model uses. */
  readonly #cacheLayers = new Map<number, number>();

  /** The layers and states that the cache has already, for a program that continues another one's. */
  constructor(graph: GraphBuilder, parameters: HyperParameters, cache?: CacheParts) {
    this.graph = graph;
    this.parameters = parameters;
    this.kvLayers.push(...(cache?.kvLayers ?? []));
    this.states.push(...(cache?.states ?? []));
  }

  /** Reserves a layer of the cache for a layer of the model. */
  addKvLayer(layer: number, shape: KvLayerShape): number {
    const index = this.kvLayers.push(shape) - 1;
    this.#cacheLayers.set(layer, index);
    return index;
  }

  /** Reserves a recurrent state. */
  addState(elements: number): StateId {
    return this.states.push(elements) - 1;
  }

  /** The layer of the cache that an earlier layer of the model has reserved. */
  kvLayerOf(layer: number): number {
    const index = this.#cacheLayers.get(layer);
    if (index === undefined) throw new TypeError(`layer ${layer} stores no keys and values`);
    return index;
  }

  norm(value: ValueId, name: string, groupWidth?: number): ValueId {
    const { norm, normEpsilon } = this.parameters;
    if (norm === "layer" && groupWidth === undefined) return this.graph.layerNorm(value, name, normEpsilon);
    return this.graph.rmsNorm(value, name, normEpsilon, groupWidth);
  }

  /** Rotates columns of each head, from `firstColumn` on. */
  rotate(value: ValueId, heads: number, headWidth: number, rope: RopeSpec, firstColumn = 0): ValueId {
    const factors = this.#factors(rope);
    return this.graph.rope(value, {
      heads,
      headWidth,
      rotaryWidth: rope.rotaryWidth,
      ...(firstColumn === 0 ? {} : { firstColumn }),
      style: rope.style,
      rope: this.#ropeId(rope),
      ...(factors === undefined ? {} : { factors }),
    });
  }

  /** Throws for a tensor that would be ignored silently. */
  refuseTensor(names: readonly string[], why: string): void {
    const stray = names.find((name) => this.graph.hasTensor(name));
    if (stray === undefined) return;
    const { architecture } = this.parameters;
    throw new ModelError("MODEL_UNSUPPORTED", `[${architecture}] ${stray} is given ${why}`, {
      details: { architecture, tensor: stray },
    });
  }

  #factors({ factors, rotaryWidth }: RopeSpec): WeightId | undefined {
    if (factors === undefined) return undefined;
    const pairs = rotaryWidth / 2;
    if (typeof factors === "string") return this.graph.optionalVector(factors, pairs);
    const { long, short, originalContext } = factors;
    return this.graph.optionalVector(this.graph.contextTokens > originalContext ? long : short, pairs);
  }

  #ropeId(rope: RopeSpec): RopeId {
    const known = this.#ropes.get(rope);
    if (known !== undefined) return known;
    const id = this.graph.ropeTable(ropeTable(rope));
    this.#ropes.set(rope, id);
    return id;
  }
}
