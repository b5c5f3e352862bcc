// Launches of rope, of the writes to the cache, and of attention in its two ways: split (few tokens a sequence, or where
// bits must not depend on company) and tiled (prompts).

import type { RotateStoreGroup } from "../../../graph/fusion.js";
import type { AttentionOperation, KvWriteOperation, RopeOperation } from "../../../graph/operation.js";
import { kvDefines, splitRows, supportsTiledAttention, tiledSharedBytes } from "../kv-layout.js";
import type { LaunchSize, LaunchSpec, Place } from "../launch.js";
import { MOST_FEW_ROWS } from "../matrix-choice.js";
import type { Defines } from "../kernel-source.js";
import type { LoweringContext, MatrixPlace } from "./context.js";
import type { ProductInput } from "./inputs.js";
import { FLOAT_BYTES } from "./regions.js";
import { shifted } from "./scratch.js";

const ROPE_THREADS = 128;
/** Heads of one block where there are many tokens: angles are computed once for all of them. */
const HEADS_OF_MANY = 16;
/** A sequence that brings fewer tokens than this would leave most of a tile empty. */
const LEAST_TILED_RUN = 9;
const INT_BYTES = 4;

function cacheDefines({ facts: { fused, limits } }: LoweringContext): Defines {
  return kvDefines(fused.program.kv, { type: limits.kvCacheType, blockTokens: limits.blockTokens });
}

/** Blocks over heads, as many heads to each as pays. */
function headBlocks(context: LoweringContext, heads: number): Pick<LaunchSpec, "sized" | "grid"> {
  const waves = ROPE_THREADS / context.facts.device.waveSize;
  const headsFor = ({ tokens }: LaunchSize): number => (tokens <= MOST_FEW_ROWS ? waves : Math.max(waves, HEADS_OF_MANY));
  return {
    sized: (size) => ({ heads_per_block: headsFor(size) }),
    grid: (size) => [Math.ceil(heads / headsFor(size)), size.tokens, 1],
  };
}

function turnArguments(context: LoweringContext, { rope, factors }: RopeOperation): LaunchSpec["arguments"] {
  const { ratio, magnitude } = context.facts.fused.program.ropes[rope];
  return {
    step: context.stepField("head"),
    positions: context.stepField("positions"),
    factors: context.weight(factors),
    stretches: context.stretches(rope),
    ratio,
    magnitude,
  };
}

export function lowerRope(context: LoweringContext, operation: RopeOperation): LaunchSpec {
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  const { headWidth, rotaryWidth, style, heads } = operation;
  return {
    label: "rope",
    file: "rope",
    variants: [{ kernel: "rotate", defines: { KEY_WIDTH: headWidth, ROTARY_WIDTH: rotaryWidth, ADJACENT: style === "adjacent" ? 1 : 0 } }],
    arguments: { ...turnArguments(context, operation), input: input.place, out: out.place, input_stride: input.stride, out_stride: out.stride, heads },
    ...headBlocks(context, heads),
  };
}

export function lowerRotateStore(context: LoweringContext, { query, key, store }: RotateStoreGroup): LaunchSpec {
  const [queries, turned] = [context.matrix(query.input), context.matrix(query.out)];
  const [keys, values] = [context.matrix(key.input), context.matrix(store.value)];
  return {
    label: "rope and store",
    file: "rope",
    variants: [{ kernel: "rotate_store", defines: { ...cacheDefines(context), ROTARY_WIDTH: query.rotaryWidth, ADJACENT: query.style === "adjacent" ? 1 : 0 } }],
    arguments: {
      ...turnArguments(context, query),
      cells: context.stepField("cells"),
      query: queries.place,
      key: keys.place,
      value: values.place,
      query_out: turned.place,
      query_stride: queries.stride,
      key_stride: keys.stride,
      value_stride: values.stride,
      query_out_stride: turned.stride,
      heads: query.heads,
      kv_heads: key.heads,
      layer: store.layer,
    },
    ...headBlocks(context, query.heads + key.heads),
  };
}

export function lowerStore(context: LoweringContext, { layer, key, value }: KvWriteOperation): LaunchSpec {
  const [keys, values] = [context.matrix(key), context.matrix(value)];
  const { kvHeads } = context.facts.fused.program.kv;
  return {
    label: "store",
    file: "rope",
    variants: [{ kernel: "kv_store", defines: cacheDefines(context) }],
    arguments: {
      step: context.stepField("head"),
      cells: context.stepField("cells"),
      key: keys.place,
      value: values.place,
      key_stride: keys.stride,
      value_stride: values.stride,
      kv_heads: kvHeads,
      layer,
    },
    ...headBlocks(context, kvHeads),
  };
}

/** Whether a step of this size takes tiles, where the program can at all. */
export function isTiled(size: LaunchSize): boolean {
  return size.longestRun >= LEAST_TILED_RUN;
}

/** `handed` is where the next product wants its input; f32 rows without it. */
export function lowerAttention(context: LoweringContext, operation: AttentionOperation, handed: ProductInput | undefined): readonly LaunchSpec[] {
  const { deterministic, device, limits, fused } = context.facts;
  const tiles = !deterministic && supportsTiledAttention(limits.kvCacheType, fused.program.kv, device.sharedBytes) === true;
  const splits = splitAttention(context, operation, handed, (size) => !tiles || !isTiled(size));
  return tiles ? [tiledAttention(context, operation, handed), ...splits] : splits;
}

const OUTPUTS = { floats: 0, rounded: 1, half: 2 } as const;

interface Written {
  readonly define: number;
  readonly values: LaunchSpec["arguments"];
  /** The same from a later token on. */
  from(token: number): LaunchSpec["arguments"];
}

function writtenOutput(out: MatrixPlace, handed: ProductInput | undefined): Written {
  const none = { out: 0, rounded: 0, scales: 0, sums: 0, halves: 0, row_scales: 0, out_stride: 0, half_stride: 0 };
  const { width } = out;
  const at = (place: Place, bytes: number): Place => shifted(place, bytes);
  switch (handed?.form) {
    case "rounded": {
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        rounded: at(handed.values, token * width),
        scales: at(handed.scales, (token * width * FLOAT_BYTES) / 32),
        sums: at(handed.sums, (token * width * FLOAT_BYTES) / 16),
      });
      return { define: OUTPUTS.rounded, values: from(0), from };
    }
    case "half": {
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        halves: at(handed.halves, token * handed.stride * 2),
        row_scales: at(handed.rowScales, token * FLOAT_BYTES),
        half_stride: handed.stride,
      });
      return { define: OUTPUTS.half, values: from(0), from };
    }
    case undefined:
    case "floats": {
      const from = (token: number): LaunchSpec["arguments"] => ({ ...none, out: at(out.place, token * out.stride * FLOAT_BYTES), out_stride: out.stride });
      return { define: OUTPUTS.floats, values: from(0), from };
    }
    default:
      return handed satisfies never;
  }
}

function tiledAttention(context: LoweringContext, operation: AttentionOperation, handed: ProductInput | undefined): LaunchSpec {
  const [query, out] = [context.matrix(operation.query), context.matrix(operation.out)];
  const { heads, kvHeads, layer, scale } = operation;
  const written = writtenOutput(out, handed);
  return {
    label: "attention, tiled",
    file: "attention-tiled",
    variants: [
      { kernel: "attention_tiled", defines: { ...cacheDefines(context), GROUP: heads / kvHeads, OUTPUT: written.define }, sharedBytes: tiledSharedBytes(operation) },
    ],
    arguments: {
      step: context.stepField("head"),
      tiles: context.stepField("tiles"),
      positions: context.stepField("positions"),
      table_starts: context.stepField("tableStarts"),
      tables: context.stepField("tables"),
      query: query.place,
      query_stride: query.stride,
      heads,
      kv_heads: kvHeads,
      layer,
      scale,
      ...written.values,
    },
    grid: (size) => [isTiled(size) ? heads : 0, size.tiles, 1],
  };
}

/** Tokens take turns where what they leave half done is too much for the memory set aside. */
function splitAttention(context: LoweringContext, operation: AttentionOperation, handed: ProductInput | undefined, isTaken: (size: LaunchSize) => boolean): readonly LaunchSpec[] {
  const region = context.regions.attention;
  const launches: LaunchSpec[] = [];
  for (let first = 0; first < context.step.capacity.tokens; first += region.tokens) {
    const tokensOf = (size: LaunchSize): number => (isTaken(size) ? Math.max(0, Math.min(region.tokens, size.tokens - first)) : 0);
    launches.push(...splitTurn(context, operation, handed, first, tokensOf));
  }
  return launches;
}

function splitTurn(
  context: LoweringContext,
  operation: AttentionOperation,
  handed: ProductInput | undefined,
  first: number,
  tokensOf: (size: LaunchSize) => number,
): readonly LaunchSpec[] {
  const [query, out] = [context.matrix(operation.query), context.matrix(operation.out)];
  const { heads, kvHeads, valueWidth, layer, scale } = operation;
  const { values, weights, splits } = context.regions.attention;
  const written = writtenOutput(out, handed);
  const defines = { ...cacheDefines(context), GROUP: heads / kvHeads, OUTPUT: written.define };
  const shared = {
    step: context.stepField("head"),
    positions: shifted(context.stepField("positions"), first * INT_BYTES),
    partial_values: values,
    partial_weights: weights,
    heads,
    splits,
  };
  return [
    {
      label: "attention",
      file: "attention-split",
      variants: [
        { kernel: "attention_split", defines },
        { kernel: "attention_whole", defines },
      ],
      choose: (size) => (size.splits > 1 ? 0 : 1),
      arguments: {
        ...shared,
        ...written.from(first),
        sequences: shifted(context.stepField("sequences"), first * INT_BYTES),
        table_starts: context.stepField("tableStarts"),
        tables: context.stepField("tables"),
        query: shifted(query.place, first * query.stride * FLOAT_BYTES),
        query_stride: query.stride,
        kv_heads: kvHeads,
        layer,
        scale,
      },
      grid: (size) => [size.splits, splitRows(operation), tokensOf(size)],
      // A later turn cannot see that the tokens before its own belong to the same step, and reads keys early.
      ...(first > 0 ? { alone: true } : {}),
    },
    {
      label: "attention, together",
      file: "attention-combine",
      variants: [{ kernel: "attention_combine", defines: { VALUE_WIDTH: valueWidth, OUTPUT: written.define } }],
      arguments: { ...shared, ...written.from(first) },
      grid: (size) => [size.splits > 1 ? heads : 0, tokensOf(size), 1],
    },
  ];
}
