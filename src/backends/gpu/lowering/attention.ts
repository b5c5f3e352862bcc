// Launches of attention: decode (one token per sequence, see decode-attention.ts and deep-attention.ts), split (few tokens per
// sequence, or deterministic mode, whose bits must not depend on the batch) and tiled (prefill).

import type { HeadStoreGroup } from "../../../graph/head-store.js";
import type { AttentionOperation } from "../../../graph/operation.js";
import {
  combinedBlocks,
  FEW_COMBINED_COLUMNS,
  splitRows,
  supportsAttention,
  visibleSplits,
} from "../memory/kv-layout.js";
import { narrowSplitShape, type WideShape, wideSplitRows, wideSplitShape } from "../memory/wide-attention.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { writtenOutput } from "./attention-output.js";
import { attentionDefines, mergeDefines } from "./attributes.js";
import type { LoweringContext } from "./context.js";
import { type PartedAttention, decodeAttention, isDecoding, joinedBefore, partArguments } from "./decode-attention.js";
import { deepAttention } from "./deep-attention.js";
import { isTiled, takesTiles, tiledAttention } from "./prefill-attention.js";
import type { HandedInput } from "./inputs.js";
import { type SomeOperationLowerings, supportsFloats } from "./operation-lowering.js";
import { FLOAT_BYTES } from "./regions.js";
import { cacheDefines, layerArguments, tableArguments } from "./rope.js";
import { shifted } from "./scratch.js";

/** Of several splits, and of one. */
const SPLIT_KERNELS = ["attention_split", "attention_whole"];
const WIDE_SPLIT_KERNELS = ["attention_wide_split", "attention_wide_whole"];
/** kMergedSplits of attention/wide-split.hip. */
const MAX_MERGED_SPLITS = 4;
const INT_BYTES = 4;
/** More splits than one block should merge of all columns of a head. */
const MANY_SPLITS = 16;
/** Merging blocks for each multiprocessor, at most, if blocks take fewer columns. */
const MAX_COMBINING_BLOCKS = 8;

interface AttentionCircumstances {
  /** Norms and RoPE of heads and the KV write that a decode step does in the same launch. */
  readonly before: HeadStoreGroup | undefined;
  /** See LoweringSize. */
  readonly tiled: boolean | undefined;
}

/**
 * `handed` is where the next matmul wants its input; f32 rows without it. `before` is the group before, where it does
 * nothing that this operation could not do in passing.
 */
function lowerAttention(
  context: LoweringContext,
  operation: AttentionOperation,
  handed: HandedInput | undefined,
  { before, tiled }: AttentionCircumstances,
): readonly LaunchSpec[] {
  const tiles = !context.options.deterministic && takesTiles(context, operation);
  if (tiles && tiled === true) return [tiledAttention(context, operation, handed)];
  const deep = before === undefined ? undefined : deepAttention(context, operation, handed, before);
  const isDeep = (size: LaunchSize): boolean => deep?.isTaken(size) === true;
  const decode = before === undefined ? undefined : decodeAttention(context, operation, handed, before, isDeep);
  const taken = {
    split: (size: LaunchSize) => !(tiles && isTiled(size)) && !(decode !== undefined && isDecoding(context, size)),
    decode,
  };
  const splits = [...(deep?.launches ?? []), ...splitAttention(context, operation, handed, taken)];
  return tiles && tiled !== false ? [tiledAttention(context, operation, handed), ...splits] : splits;
}

interface Taken {
  /** Which steps take split attention by itself. */
  split(size: LaunchSize): boolean;
  /** What the others have instead, where it leaves parts as well. */
  readonly decode: PartedAttention | undefined;
}

/** Tokens are split into turns if their partial results are too much for the memory set aside. */
function splitAttention(
  context: LoweringContext,
  operation: AttentionOperation,
  handed: HandedInput | undefined,
  { split, decode }: Taken,
): readonly LaunchSpec[] {
  const region = context.regions.attention;
  const launches: LaunchSpec[] = decode === undefined ? [] : [decode.launch];
  for (let first = 0; first < context.step.capacity.tokens; first += region.tokens) {
    const tokensOf = (size: LaunchSize): number => Math.max(0, Math.min(region.tokens, size.tokens - first));
    const turn = splitTurn(context, operation, handed, first, (size) => (split(size) ? tokensOf(size) : 0));
    launches.push(turn.launch);
    const isParted = (size: LaunchSize): boolean =>
      split(size) ? turn.leavesParts(size) : first === 0 && decode?.leavesParts(size) === true;
    launches.push(combinedTurn(context, operation, handed, first, (size) => (isParted(size) ? tokensOf(size) : 0)));
  }
  return launches;
}

type TokenCount = (size: LaunchSize) => number;

function splitTurn(
  context: LoweringContext,
  operation: AttentionOperation,
  handed: HandedInput | undefined,
  first: number,
  tokensOf: TokenCount,
): PartedAttention {
  const [query, out] = [context.matrix(operation.query), context.matrix(operation.out)];
  const { heads, kvHeads, scale } = operation;
  const written = writtenOutput(out, handed);
  const shapes = wideShapes(context, operation);
  const shapeOf = (size: LaunchSize): number => {
    const fits = ({ rows }: WideShape): boolean =>
      tokensOf(size) * visibleSplits(operation, size.splits) * wideSplitRows(operation, { rows }) <=
      context.options.device.multiprocessors;
    return Math.max(0, shapes.findLastIndex(fits));
  };
  const isWide = shapes.length > 0;
  const rowsFor = (size: LaunchSize): number =>
    isWide ? wideSplitRows(operation, shapes[shapeOf(size)]) : splitRows(operation);
  const { tileArrivals, tileBlocks } = context.regions;
  const merges = (size: LaunchSize): boolean =>
    isWide &&
    visibleSplits(operation, size.splits) <= MAX_MERGED_SPLITS &&
    tokensOf(size) * rowsFor(size) <= tileBlocks;
  const defines = {
    ...cacheDefines(context, operation),
    ...attentionDefines(operation),
    GROUP: heads / kvHeads,
  };
  const kernels = isWide ? WIDE_SPLIT_KERNELS : SPLIT_KERNELS;
  const shapeVariants: readonly { readonly shape: Defines; readonly sharedBytes?: number }[] = isWide
    ? shapes.map(({ defines: shape, sharedBytes }) => ({ shape, sharedBytes }))
    : [{ shape: {} }];
  const launch: LaunchSpec = {
    label: "attention",
    file: isWide ? "attention/wide-split" : "attention/split",
    variants: shapeVariants.flatMap(({ shape, ...rest }) =>
      kernels.flatMap((kernel) =>
        written.forms.map((form) => ({ kernel, defines: { ...defines, ...shape, ...form }, ...rest })),
      ),
    ),
    choose: (size) => {
      const isWhole = visibleSplits(operation, size.splits) === 1;
      return (shapeOf(size) * kernels.length + (isWhole ? 1 : 0)) * written.forms.length + written.formOf(size);
    },
    arguments: {
      ...partArguments(context, operation, first),
      ...written.from(first),
      sequences: shifted(context.stepField("sequences"), first * INT_BYTES),
      ...tableArguments(context, operation.layer),
      query: shifted(query.place, first * query.stride * FLOAT_BYTES),
      query_stride: query.stride,
      kv_heads: kvHeads,
      ...layerArguments(context, operation.layer),
      scale,
      ...(isWide ? { arrivals: tileArrivals } : {}),
    },
    ...(isWide ? { sized: (size) => ({ merges: merges(size) ? 1 : 0 }) } : {}),
    grid: (size) => [visibleSplits(operation, size.splits), rowsFor(size), tokensOf(size)],
    // A later turn does not know that the tokens before its own belong to the same step, and would read keys early.
    ...(first > 0 ? { alone: true } : {}),
  };
  return { launch, leavesParts: (size) => visibleSplits(operation, size.splits) > 1 && !merges(size) };
}

/** Shapes of attention over wide heads, that of most heads a block first; none: heads are not wide. */
function wideShapes({ options }: LoweringContext, operation: AttentionOperation): readonly WideShape[] {
  const { device, limits, deterministic } = options;
  const shape = wideSplitShape(limits.kvCacheType, operation, device);
  if (shape === undefined) return [];
  // Bits would depend on the batch size.
  const narrow = deterministic ? undefined : narrowSplitShape(limits.kvCacheType, operation, device);
  return narrow === undefined || narrow.rows >= shape.rows ? [shape] : [shape, narrow];
}

function combinedTurn(
  context: LoweringContext,
  operation: AttentionOperation,
  handed: HandedInput | undefined,
  first: number,
  tokensOf: TokenCount,
): LaunchSpec {
  const { heads, valueWidth } = operation;
  const { device, deterministic } = context.options;
  const written = writtenOutput(context.matrix(operation.out), handed);
  const defines = { ...mergeDefines(operation), VALUE_WIDTH: valueWidth };
  const manyBlocks = Math.ceil(valueWidth / FEW_COMBINED_COLUMNS);
  // Bits would depend on the longest sequence of the batch.
  const isDivided = (size: LaunchSize): boolean =>
    !deterministic &&
    valueWidth % FEW_COMBINED_COLUMNS === 0 &&
    visibleSplits(operation, size.splits) > MANY_SPLITS &&
    tokensOf(size) * heads * manyBlocks <= device.multiprocessors * MAX_COMBINING_BLOCKS;
  return {
    label: "attention, merged",
    file: "attention/combine",
    variants: [{}, { COMBINED_COLUMNS: FEW_COMBINED_COLUMNS }].flatMap((columns) =>
      written.forms.map((form) => ({ kernel: "attention_combine", defines: { ...defines, ...form, ...columns } })),
    ),
    choose: (size) => (isDivided(size) ? 1 : 0) * written.forms.length + written.formOf(size),
    arguments: { ...partArguments(context, operation, first), ...written.from(first) },
    grid: (size) => [heads * (isDivided(size) ? manyBlocks : combinedBlocks(valueWidth)), tokensOf(size), 1],
  };
}

export const ATTENTION_LOWERINGS = {
  attention: {
    supports: (operation, [sinks]) => supportsFloats("sinks", sinks, supportsAttention(operation)),
    lower: (context, operation, { groupIndex, matmuls, wanted }) => {
      const { groups } = context.options.fused;
      return lowerAttention(context, operation, wanted, {
        before: joinedBefore(context, groups[groupIndex - 1], groups[groupIndex], groupIndex),
        tiled: matmuls.size.tiled,
      });
    },
  },
} satisfies SomeOperationLowerings;
