// Attention as a case: each token's queries, keys and values are columns of its input row.

import type { KvCacheType } from "../backends/contract.js";
import { Dice } from "./dice.js";
import { floats, inputTable, type ProgramCase } from "./program-case.js";

/** Heads of an attention layer. */
export interface Heads {
  readonly heads: number;
  readonly kvHeads: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
}

/** A KV cache of a case. */
export interface CacheShape {
  readonly type: KvCacheType;
  readonly blockTokens: number;
  readonly blocks: number;
  readonly rotated?: boolean;
}

/** What attention is told besides its heads. */
export interface AttentionAttributes {
  readonly scale?: number;
  readonly window?: number;
  readonly chunk?: number;
  readonly first?: number;
  readonly temperature?: number;
  readonly temperatureLength?: number;
  readonly temperatureOffset?: number;
  /** The values are the first columns of the keys, and nothing else is stored. */
  readonly valuesInKeys?: boolean;
  readonly softCap?: number;
  /** The logits of the heads' sinks; they are repeated if there are more heads. */
  readonly sinks?: readonly number[];
}

/** Attention over one of two layers. */
export function createAttentionCase(
  { heads, kvHeads, keyWidth, valueWidth }: Heads,
  cache: CacheShape,
  rows: number,
  { sinks, scale = 1 / Math.sqrt(keyWidth), ...attributes }: AttentionAttributes = {},
): ProgramCase {
  const queryColumns = heads * keyWidth;
  const keyColumns = kvHeads * keyWidth;
  const isLatent = attributes.valuesInKeys === true;
  const valueColumns = isLatent ? 0 : kvHeads * valueWidth;
  const width = queryColumns + keyColumns + valueColumns;
  const sinkLogits = Float32Array.from({ length: heads }, (_, head) => sinks?.[head % sinks.length] ?? 0);
  return {
    vocabularySize: rows,
    kv: { layers: 2, kvHeads, keyWidth, valueWidth: isLatent ? 0 : valueWidth },
    kvCacheType: cache.type,
    blockTokens: cache.blockTokens,
    blocks: cache.blocks,
    weights: {
      inputs: inputTable(new Dice(width), width, rows, 1.5),
      ...(sinks === undefined ? {} : { sinks: floats([heads], sinkLogits) }),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, rows);
      let query = graph.columns(input, "query", 0, queryColumns);
      let key = graph.columns(input, "key", queryColumns, keyColumns);
      const value = isLatent ? undefined : graph.columns(input, "value", queryColumns + keyColumns, valueColumns);
      if (cache.rotated === true) {
        const rope = graph.ropeTable({
          ratio: Math.fround(0.8),
          stretches: Array.from({ length: keyWidth / 2 }, () => 1),
          magnitude: 1,
        });
        const rotation = { headWidth: keyWidth, rotaryWidth: keyWidth, style: "halves", rope } as const;
        query = graph.rope(query, { heads, ...rotation });
        key = graph.rope(key, { heads: kvHeads, ...rotation });
      }
      const sinkWeight = graph.optionalVector("sinks", heads);
      const first = graph.attention(query, key, value, {
        layer: 1,
        heads,
        kvHeads,
        keyWidth,
        valueWidth,
        scale,
        ...attributes,
        ...(sinkWeight === undefined ? {} : { sinks: sinkWeight }),
      });
      return { hidden: graph.selectRows(first, "outputs") };
    },
  };
}
