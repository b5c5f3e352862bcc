// Attention of steps in which every sequence brings one token: rope and the write to the cache are part of its launch.
// kernels/attention/decode.hip computes what attention/rope.hip and attention/split.hip compute for other steps, to the
// bit.

import type { Group } from "../../../graph/fusion.js";
import type { HeadStoreGroup } from "../../../graph/head-store.js";
import type { AttentionOperation, ValueId } from "../../../graph/operation.js";
import { splitRows, visibleSplits } from "../memory/kv-layout.js";
import { wideSplitShape } from "../memory/wide-attention.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { writtenOutput } from "./attention-output.js";
import { attentionDefines } from "./attributes.js";
import type { LoweringContext } from "./context.js";
import { DECODE_FILE, decodeHeads } from "./decode-heads.js";
import type { HandedInput } from "./inputs.js";
import { cacheDefines, layerArguments, preparationArguments, preparationDefines, tableArguments } from "./rope.js";
import { shifted } from "./scratch.js";

const INT_BYTES = 4;

export interface PartedAttention {
  readonly launch: LaunchSpec;
  /** Whether results are in parts yet, for a step that takes this way. */
  leavesParts(size: LaunchSize): boolean;
}

/** Whether a step of this size takes decode attention, if the program supports it. */
export function isDecoding(context: LoweringContext, size: LaunchSize): boolean {
  return size.longestRun === 1 && size.tokens <= context.regions.attention.tokens;
}

/** The group before, if attention can do its work too: it prepares queries for that operation alone. */
export function joinedBefore(
  context: LoweringContext,
  group: Group | undefined,
  next: Group | undefined,
  nextIndex: number,
): HeadStoreGroup | undefined {
  if (group?.form !== "head-store" || next?.form !== "single" || next.operation.kind !== "attention") return undefined;
  const { query, store } = group;
  const { operation } = next;
  const { device, limits } = context.options;
  const isWide = wideSplitShape(limits.kvCacheType, operation, device) !== undefined;
  if (store.layer !== operation.layer || isWide) return undefined;
  if (query === undefined) return group;
  return operation.query === query.out && context.isOnlyReadBy(query.out, nextIndex) ? group : undefined;
}

/** What kernels that leave or find results in parts are given, for tokens from `first` on. */
export function partArguments(
  context: LoweringContext,
  operation: AttentionOperation,
  first: number,
): LaunchSpec["arguments"] {
  return {
    ...partPlaces(context, operation),
    positions: shifted(context.stepField("positions"), first * INT_BYTES),
    sinks: context.weight(operation.sinks),
  };
}

function partPlaces(context: LoweringContext, { heads, layer }: AttentionOperation): LaunchSpec["arguments"] {
  const { values, weights, splits } = context.regions.attention;
  return { step: context.groupField("head", layer), partial_values: values, partial_weights: weights, heads, splits };
}

/** What kernels are given that prepare queries, key and value, store the latter two, and leave results in parts. */
export function decodeArguments(
  context: LoweringContext,
  operation: AttentionOperation,
  group: HeadStoreGroup,
): LaunchSpec["arguments"] {
  const [queries, keys, values] = inputsOf(operation, group).map((id) => context.matrix(id));
  return {
    ...preparationArguments(context, group),
    ...layerArguments(context, operation.layer),
    ...partPlaces(context, operation),
    ...tableArguments(context, operation.layer),
    query: queries.place,
    key: keys.place,
    value: values.place,
    query_stride: queries.stride,
    key_stride: keys.stride,
    value_stride: values.stride,
    kv_heads: operation.kvHeads,
    scale: operation.scale,
  };
}

function inputsOf({ query }: AttentionOperation, group: HeadStoreGroup): readonly ValueId[] {
  return [group.query?.input ?? query, group.key.input, group.value.input];
}

/** `isDeep` says which steps take attention over long sequences instead. */
export function decodeAttention(
  context: LoweringContext,
  operation: AttentionOperation,
  handed: HandedInput | undefined,
  group: HeadStoreGroup,
  isDeep: (size: LaunchSize) => boolean,
): PartedAttention {
  const { heads, kvHeads } = operation;
  const written = writtenOutput(context.matrix(operation.out), handed);
  const splitsOf = (size: LaunchSize): number => visibleSplits(operation, size.splits);
  const isTaken = (size: LaunchSize): boolean => isDecoding(context, size) && !isDeep(size);
  const leavesParts = (size: LaunchSize): boolean => isTaken(size) && splitsOf(size) > 1;

  const defines = {
    ...cacheDefines(context, operation),
    ...preparationDefines(context, group),
    ...attentionDefines(operation),
    GROUP: heads / kvHeads,
    ...written.forms[0],
  };
  const definesFor = (blockHeads: number): Defines => ({ ...defines, BLOCK_HEADS: blockHeads });
  const { counts, indexFor, tunedFor } = decodeHeads(context, operation, definesFor);
  const launch: LaunchSpec = {
    label: "rope, store and attention",
    file: DECODE_FILE,
    variants: counts.flatMap((blockHeads) =>
      ["attention_decode", "attention_decode_whole"].map((kernel) => ({ kernel, defines: definesFor(blockHeads) })),
    ),
    choose: (size) => indexFor(size) * 2 + (leavesParts(size) ? 0 : 1),
    // Of what leaves parts the first split alone is written in a step that is tuned: such steps take what others have found.
    tunedFor: (size) => (leavesParts(size) ? undefined : tunedFor(size)),
    recut: (choices) => decodeAttention(context.withChoices(choices), operation, handed, group, isDeep).launch,
    results: written.results,
    arguments: {
      ...decodeArguments(context, operation, group),
      ...written.values,
      sinks: context.weight(operation.sinks),
    },
    grid: (size) =>
      isTaken(size) ? [splitsOf(size), splitRows(operation, counts[indexFor(size)]), size.tokens] : [0, 0, 0],
  };
  return { launch, leavesParts };
}
