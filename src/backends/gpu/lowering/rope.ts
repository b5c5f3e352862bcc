// Launches of RoPE and of the writes to the cache, and the arguments of every kernel that rotates or stores.

import type { RopeStoreGroup } from "../../../graph/fusion.js";
import type { KvWriteOperation, RopeOperation } from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";
import { kvDefines, supportsRope } from "../memory/kv-layout.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { MAX_SMALL_BATCH } from "./matmul-selection.js";
import type { LoweringContext } from "./context.js";
import { type SomeOperationLowerings, supportsFloats } from "./operation-lowering.js";

const ROPE_THREADS = 128;
/** Heads of one thread block if there are many tokens: angles are computed once for all of them. */
const HEADS_OF_MANY = 16;

export function cacheDefines({ options: { fused, limits } }: LoweringContext): Defines {
  return kvDefines(fused.program.kv, { type: limits.kvCacheType, blockTokens: limits.blockTokens });
}

export function rotationDefines({ rotaryWidth, style }: RopeOperation): Defines {
  return { ROTARY_WIDTH: rotaryWidth, ADJACENT: style === "adjacent" ? 1 : 0 };
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

export function rotationArguments(context: LoweringContext, { rope, factors }: RopeOperation): LaunchSpec["arguments"] {
  const { ratio, magnitude } = context.options.fused.program.ropes[rope];
  return {
    step: context.stepField("head"),
    positions: context.stepField("positions"),
    factors: context.weight(factors),
    stretches: context.stretches(rope),
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
export function lowerRotateStore(
  context: LoweringContext,
  { query, key, store }: RopeStoreGroup,
  isTaken: (size: LaunchSize) => boolean,
): LaunchSpec {
  const { grid, sized } = headBlocks(context, query.heads + key.heads);
  const [queries, rotated] = [context.matrix(query.input), context.matrix(query.out)];
  const [keys, values] = [context.matrix(key.input), context.matrix(store.value)];
  return {
    label: "rope and store",
    file: "attention/rope",
    variants: [{ kernel: "rotate_store", defines: { ...cacheDefines(context), ...rotationDefines(query) } }],
    arguments: {
      ...rotationArguments(context, query),
      cells: context.stepField("cells"),
      query: queries.place,
      key: keys.place,
      value: values.place,
      query_out: rotated.place,
      query_stride: queries.stride,
      key_stride: keys.stride,
      value_stride: values.stride,
      query_out_stride: rotated.stride,
      heads: query.heads,
      kv_heads: key.heads,
      layer: store.layer,
    },
    sized,
    grid: (size) => (isTaken(size) ? grid(size) : [0, 0, 0]),
  };
}

function lowerStore(context: LoweringContext, { layer, key, value }: KvWriteOperation): LaunchSpec {
  const [keys, values] = [context.matrix(key), context.matrix(value ?? key)];
  const { kvHeads } = context.options.fused.program.kv;
  return {
    label: "store",
    file: "attention/rope",
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

export const ROPE_LOWERINGS = {
  rope: {
    supports: (operation, [factors]) => supportsFloats("factors", factors, supportsRope(operation)),
    lower: (context, operation) => [lowerRope(context, operation)],
  },
  "kv-write": { lower: (context, operation) => [lowerStore(context, operation)] },
} satisfies SomeOperationLowerings;
