// Programs with the forms of attention that families are made of, for the conformance tests and `rocmforge verify`: norms and rotations of heads
// before the KV write, latent attention, and layers of different shapes, one of which reads another's cache.

import type { KvCacheType } from "../backends/contract.js";
import type { GraphBuilder } from "../graph/builder.js";
import type { RopeStyle, ValueId } from "../graph/operation.js";
import { kvShapeOf } from "../graph/program.js";
import { Dice } from "./dice.js";
import type { AttentionAttributes, Heads } from "./attention-cases.js";
import { floats, inputTable, type ProgramCase, randomWeight } from "./program-case.js";

/** Tokens of a cache block in these cases. */
export const FORM_BLOCK_TOKENS = 16;
const BLOCKS = 16;
const EPSILON = 1e-5;

/** How heads are rotated. */
export interface Rotation {
  readonly rotaryWidth: number;
  readonly firstColumn?: number;
  readonly style: RopeStyle;
  readonly factors?: boolean;
}

/** What happens to queries and keys before they are used. */
export interface Preparation {
  readonly heads: Heads;
  readonly norm?: "before" | "after";
  /** Norms without weights. */
  readonly unweighted?: boolean;
  readonly normType?: "F32" | "F16" | "BF16";
  readonly valueNorm?: boolean;
  /** Absent: heads are not rotated. */
  readonly rotation?: Rotation;
  readonly attributes?: Omit<AttentionAttributes, "sinks">;
}

function cacheOf(type: KvCacheType): Pick<ProgramCase, "kvCacheType" | "blockTokens" | "blocks"> {
  return { kvCacheType: type, blockTokens: FORM_BLOCK_TOKENS, blocks: BLOCKS };
}

/** Rotates heads by a table that the case adds. */
export function rotate(
  graph: GraphBuilder,
  input: ValueId,
  heads: number,
  headWidth: number,
  rotation: Rotation,
): ValueId {
  const { rotaryWidth, firstColumn, style, factors = false } = rotation;
  const rope = graph.ropeTable({
    ratio: Math.fround(0.8),
    stretches: Array.from({ length: rotaryWidth / 2 }, (_, pair) => 1 / (1 + pair / 16)),
    magnitude: 1.1,
  });
  return graph.rope(input, {
    heads,
    headWidth,
    rotaryWidth,
    style,
    rope,
    ...(firstColumn === undefined ? {} : { firstColumn }),
    ...(factors ? { factors: graph.vector("factors", rotaryWidth / 2) } : {}),
  });
}

/** Queries, keys and values that are columns of the input, prepared as the case says, stored and attended to. */
export function createPreparedCase(wanted: Preparation, type: KvCacheType, rows: number): ProgramCase {
  const { norm, rotation, valueNorm = false, unweighted = false, normType = "F32", attributes } = wanted;
  const { heads, kvHeads, keyWidth, valueWidth } = wanted.heads;
  const { scale = 1 / Math.sqrt(keyWidth), ...others } = attributes ?? {};
  const [queryColumns, keyColumns] = [heads * keyWidth, kvHeads * keyWidth];
  const width = queryColumns + keyColumns + kvHeads * valueWidth;
  const dice = new Dice(width);
  return {
    ...cacheOf(type),
    vocabularySize: rows,
    kv: kvShapeOf([{ kvHeads, keyWidth, valueWidth }]),
    weights: {
      inputs: inputTable(dice, width, rows, 1.5),
      "q.weight": randomWeight(dice, normType, [keyWidth], 1),
      "k.weight": randomWeight(dice, normType, [keyWidth], 1),
      factors: floats(
        [Math.max(1, (rotation?.rotaryWidth ?? 0) / 2)],
        Array.from({ length: Math.max(1, (rotation?.rotaryWidth ?? 0) / 2) }, (_, pair) => 1 + pair / 7),
      ),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, rows);
      const normed = (id: ValueId, name: string): ValueId =>
        unweighted ? graph.unweightedRmsNorm(id, EPSILON, keyWidth) : graph.rmsNorm(id, name, EPSILON, keyWidth);
      const rotated = (id: ValueId, count: number): ValueId =>
        rotation === undefined ? id : rotate(graph, id, count, keyWidth, rotation);
      const query = graph.columns(input, "query", 0, queryColumns);
      const key = graph.columns(input, "key", queryColumns, keyColumns);
      const rawValue = graph.columns(input, "value", queryColumns + keyColumns, kvHeads * valueWidth);
      const value = valueNorm ? graph.unweightedRmsNorm(rawValue, EPSILON, valueWidth) : rawValue;
      const [first, second] = [
        norm === "before" ? normed(query, "q") : query,
        norm === "before" ? normed(key, "k") : key,
      ];
      let [readyQuery, readyKey] = [first, second];
      if (norm === "after") {
        readyQuery = normed(rotated(first, heads), "q");
        readyKey = normed(rotated(second, kvHeads), "k");
      } else {
        readyQuery = rotated(first, heads);
        readyKey = rotated(second, kvHeads);
      }
      const attended = graph.attention(readyQuery, readyKey, value, {
        layer: 0,
        heads,
        kvHeads,
        keyWidth,
        valueWidth,
        scale,
        ...others,
      });
      return { hidden: graph.selectRows(attended, "outputs") };
    },
  };
}

/** Widths of latent attention. */
export interface LatentShape {
  readonly heads: number;
  readonly latentWidth: number;
  readonly rotaryWidth: number;
  readonly attributes?: Omit<AttentionAttributes, "sinks">;
}

/** Latent attention in its absorbed form: queries and keys joined from a latent and a rotated part, values in the keys. */
export function createLatentCase(
  { heads, latentWidth, rotaryWidth, attributes }: LatentShape,
  type: KvCacheType,
  rows: number,
): ProgramCase {
  const keyWidth = latentWidth + rotaryWidth;
  // Of the query's heads, `unrotated` columns in front are not used, as in models.
  const unrotated = 16;
  const headWidth = unrotated + rotaryWidth;
  const width = heads * latentWidth + heads * headWidth + keyWidth;
  const dice = new Dice(width);
  const rotation = { rotaryWidth, style: "adjacent" } as const;
  return {
    ...cacheOf(type),
    vocabularySize: rows,
    kv: kvShapeOf([{ kvHeads: 1, keyWidth, valueWidth: 0 }]),
    weights: {
      inputs: inputTable(dice, width, rows, 1.5),
      "latent.weight": randomWeight(dice, "F32", [latentWidth], 1),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, rows);
      const absorbed = graph.columns(input, "absorbed", 0, heads * latentWidth);
      const rawQuery = graph.columns(input, "query", heads * latentWidth, heads * headWidth);
      const compressed = graph.columns(input, "compressed", heads * (latentWidth + headWidth), keyWidth);
      const latent = graph.rmsNorm(graph.columns(compressed, "latent", 0, latentWidth), "latent", EPSILON);
      const position = graph.columns(compressed, "position", latentWidth, rotaryWidth);
      const key = graph.emit("key", {
        kind: "concat-heads",
        left: latent,
        right: rotate(graph, position, 1, rotaryWidth, rotation),
        heads: 1,
        leftWidth: latentWidth,
        rightWidth: rotaryWidth,
        rightStride: 0,
        rightOffset: 0,
      });
      graph.kvWrite(0, key);
      const query = graph.emit("query", {
        kind: "concat-heads",
        left: absorbed,
        right: rotate(graph, rawQuery, heads, headWidth, { ...rotation, firstColumn: unrotated }),
        heads,
        leftWidth: latentWidth,
        rightWidth: rotaryWidth,
        rightStride: headWidth,
        rightOffset: unrotated,
      });
      const attended = graph.attend(query, {
        layer: 0,
        heads,
        kvHeads: 1,
        keyWidth,
        valueWidth: latentWidth,
        scale: 1 / Math.sqrt(keyWidth),
        valuesInKeys: true,
        ...attributes,
      });
      return { hidden: graph.selectRows(attended, "outputs") };
    },
  };
}

/** Three layers of different shapes; a fourth reads the first one's cache. Returns the four results side by side. */
export function createMixedLayersCase(type: KvCacheType, rows: number): ProgramCase & { readonly width: number } {
  const layers: readonly Heads[] = [
    { heads: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64 },
    { heads: 2, kvHeads: 1, keyWidth: 288, valueWidth: 320 },
    { heads: 6, kvHeads: 3, keyWidth: 32, valueWidth: 96 },
  ];
  const widthOf = ({ heads, kvHeads, keyWidth, valueWidth }: Heads): number =>
    heads * keyWidth + kvHeads * (keyWidth + valueWidth);
  const width = layers.reduce((total, layer) => total + widthOf(layer), 0);
  const outWidth = [...layers, layers[0]].reduce((total, { heads, valueWidth }) => total + heads * valueWidth, 0);
  return {
    ...cacheOf(type),
    width: outWidth,
    vocabularySize: rows,
    kv: kvShapeOf(layers.map(({ kvHeads, keyWidth, valueWidth }) => ({ kvHeads, keyWidth, valueWidth }))),
    weights: { inputs: inputTable(new Dice(width), width, rows, 1.5) },
    build: (graph) => {
      const input = graph.embed("inputs", width, rows);
      let column = 0;
      const take = (name: string, columns: number): ValueId => {
        column += columns;
        return graph.columns(input, name, column - columns, columns);
      };
      const results = layers.map((layer, index) => {
        const { heads, kvHeads, keyWidth, valueWidth } = layer;
        const query = take("query", heads * keyWidth);
        const key = take("key", kvHeads * keyWidth);
        const value = take("value", kvHeads * valueWidth);
        return graph.attention(query, key, value, { layer: index, ...layer, scale: 0.1 });
      });
      const [first] = layers;
      const query = graph.columns(input, "other query", 8, first.heads * first.keyWidth);
      results.push(graph.attend(query, { layer: 0, ...first, scale: 0.2, window: 9 }));
      const joined = results.reduce((left, right) =>
        graph.emit("joined", {
          kind: "concat-heads",
          left,
          right,
          heads: 1,
          leftWidth: graph.width(left),
          rightWidth: graph.width(right),
          rightStride: 0,
          rightOffset: 0,
        }),
      );
      return { hidden: graph.selectRows(joined, "outputs") };
    },
  };
}
