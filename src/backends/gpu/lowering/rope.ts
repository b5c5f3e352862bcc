// Launches of RoPE and of the writes to the cache with the norms and rotations before them, and the arguments of every
// kernel that prepares heads or stores.

import type { HeadStoreGroup } from "../../../graph/head-store.js";
import type { KvWriteOperation, RmsNormOperation, RopeOperation } from "../../../graph/operation.js";
import { kvLayers } from "../../../graph/program.js";
import type { Defines } from "../kernels/kernel-source.js";
import { type HeadWidths, kvDefines, kvLayerPlace, supportsRope } from "../memory/kv-layout.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { MAX_SMALL_BATCH } from "./matmul-selection.js";
import type { LoweringContext } from "./context.js";
import { type SomeOperationLowerings, supportsFloats } from "./operation-lowering.js";

const ROPE_THREADS = 128;
/** Heads of one thread block if there are many tokens: angles are computed once for all of them. */
const HEADS_OF_MANY = 16;

/** The defines of kernels that access a layer of the cache; of attention if its values lie in the keys. */
export function cacheDefines({ options: { limits } }: LoweringContext, widths: HeadWidths): Defines {
  return kvDefines(widths, { type: limits.kvCacheType, blockTokens: limits.blockTokens });
}

/** Where kernels find a layer of the cache; the head is that of its cache group. */
export function layerArguments(context: LoweringContext, layer: number): LaunchSpec["arguments"] {
  const { fused, limits } = context.options;
  const place = kvLayerPlace({ ...fused.program.kv, type: limits.kvCacheType, blockTokens: limits.blockTokens }, layer);
  const step = context.groupField("head", layer);
  return { step, layer_bytes: BigInt(place.bytes), layer_padding: place.paddingBytes };
}

/** Where kernels find the block tables of a layer. */
export function tableArguments(context: LoweringContext, layer: number): LaunchSpec["arguments"] {
  return { table_starts: context.groupField("tableStarts", layer), tables: context.stepField("tables") };
}

/** Rotations of a head; none without an operation. */
export function rotationDefines(rope: RopeOperation | undefined): Defines {
  if (rope === undefined) return { ROTARY_WIDTH: 0, ADJACENT: 0 };
  const { rotaryWidth, style, firstColumn = 0 } = rope;
  return {
    ROTARY_WIDTH: rotaryWidth,
    ADJACENT: style === "adjacent" ? 1 : 0,
    ...(firstColumn === 0 ? {} : { FIRST_COLUMN: firstColumn }),
  };
}

/** What a kernel that prepares heads is compiled with: kernels/attention/heads.h. */
export function preparationDefines(
  context: LoweringContext,
  { query, key, value, normFirst }: HeadStoreGroup,
): Defines {
  const typeOf = (norm: RmsNormOperation | undefined): number =>
    norm?.weight === undefined ? -1 : context.typeOf(norm.weight);
  return {
    ...rotationDefines(key.rope),
    ...(key.norm === undefined
      ? {}
      : { NORM: normFirst ? 1 : 2, QUERY_NORM_TYPE: typeOf(query?.norm), KEY_NORM_TYPE: typeOf(key.norm) }),
    ...(value.norm === undefined ? {} : { VALUE_NORM: 1 }),
  };
}

/** What such a kernel is given. */
export function preparationArguments(
  context: LoweringContext,
  { query, key, value }: HeadStoreGroup,
): LaunchSpec["arguments"] {
  return {
    ...rotationArguments(context, key.rope),
    query_norm: context.weight(query?.norm?.weight),
    key_norm: context.weight(key.norm?.weight),
    epsilon: key.norm?.epsilon ?? 0,
    value_epsilon: value.norm?.epsilon ?? 0,
  };
}

/** Blocks over heads, as many heads to each as pays. */
function headBlocks(context: LoweringContext, heads: number): Required<Pick<LaunchSpec, "sized" | "grid">> {
  const waves = ROPE_THREADS / context.options.device.waveSize;
  const headsFor = ({ tokens }: LaunchSize): number =>
    tokens <= MAX_SMALL_BATCH ? waves : Math.max(waves, HEADS_OF_MANY);
  return {
    sized: (size) => ({ heads_per_block: headsFor(size) }),
    grid: (size) => [Math.ceil(heads / headsFor(size)), size.tokens, 1],
  };
}

export function rotationArguments(context: LoweringContext, rope: RopeOperation | undefined): LaunchSpec["arguments"] {
  const shared = { step: context.stepField("head"), positions: context.stepField("positions") };
  if (rope === undefined) return { ...shared, factors: 0, stretches: 0, ratio: 1, magnitude: 1 };
  const { ratio, magnitude } = context.options.fused.program.ropes[rope.rope];
  return {
    ...shared,
    factors: context.weight(rope.factors),
    stretches: context.stretches(rope.rope),
    ratio,
    magnitude,
  };
}

function lowerRope(context: LoweringContext, operation: RopeOperation): LaunchSpec {
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  const { headWidth, heads } = operation;
  return {
    label: "rope",
    file: "attention/rope",
    variants: [{ kernel: "rotate", defines: { KEY_WIDTH: headWidth, ...rotationDefines(operation) } }],
    arguments: {
      ...rotationArguments(context, operation),
      input: input.place,
      out: out.place,
      input_stride: input.stride,
      out_stride: out.stride,
      heads,
    },
    ...headBlocks(context, heads),
  };
}

/** `isTaken` says for which steps; attention itself does the same work for the others. */
export function lowerHeadStore(
  context: LoweringContext,
  group: HeadStoreGroup,
  isTaken: (size: LaunchSize) => boolean,
): LaunchSpec {
  const { query, key, value, store } = group;
  const { kvHeads, keyWidth, valueWidth } = kvLayers(context.options.fused.program.kv)[store.layer];
  const [queries, prepared] = query === undefined ? [] : [context.matrix(query.input), context.matrix(query.out)];
  const [keys, values] = [context.matrix(key.input), context.matrix(value.input)];
  const heads = queries === undefined ? 0 : queries.width / keyWidth;
  const { grid, sized } = headBlocks(context, heads + kvHeads);
  return {
    label: query === undefined ? "store" : "rope and store",
    file: "attention/rope",
    variants: [
      {
        kernel: "head_store",
        defines: { ...cacheDefines(context, { keyWidth, valueWidth }), ...preparationDefines(context, group) },
      },
    ],
    arguments: {
      ...preparationArguments(context, group),
      ...layerArguments(context, store.layer),
      cells: context.groupField("cells", store.layer),
      query: queries?.place ?? 0,
      key: keys.place,
      value: values.place,
      query_out: prepared?.place ?? 0,
      query_stride: queries?.stride ?? 0,
      key_stride: keys.stride,
      value_stride: values.stride,
      query_out_stride: prepared?.stride ?? 0,
      heads,
      kv_heads: kvHeads,
    },
    sized,
    grid: (size) => (isTaken(size) ? grid(size) : [0, 0, 0]),
  };
}

/** The write of keys that hold their values; others are groups of their own. */
function lowerStore(context: LoweringContext, store: KvWriteOperation): LaunchSpec {
  const { key, value = key } = store;
  return lowerHeadStore(
    context,
    {
      form: "head-store",
      query: undefined,
      key: { input: key, out: key, norm: undefined, rope: undefined },
      value: { input: value, norm: undefined },
      normFirst: true,
      store: { ...store, value },
      parts: [store],
    },
    () => true,
  );
}

export const ROPE_LOWERINGS = {
  rope: {
    supports: (operation, [factors]) => supportsFloats("factors", factors, supportsRope(operation)),
    lower: (context, operation) => [lowerRope(context, operation)],
  },
  "kv-write": { lower: (context, operation) => [lowerStore(context, operation)] },
} satisfies SomeOperationLowerings;
