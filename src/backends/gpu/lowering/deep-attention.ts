// Decode attention over long sequences, or over many: the launches of kernels/attention/deep-decode.hip and
// deep-combine.hip, for steps whose longest sequence is deep enough, or that have so many sequences that a device is busy
// with one block for each kv head of each. Not in deterministic mode: results differ in their last bits from those of
// attention/split.hip.

import type { HeadStoreGroup } from "../../../graph/head-store.js";
import type { AttentionOperation } from "../../../graph/operation.js";
import { deepCombinedBlocks, deepParts, deepShape, fillsDevice, isDeep } from "../memory/deep-attention.js";
import { visibleSplits } from "../memory/kv-layout.js";
import { writtenOutput } from "./attention-output.js";
import { attentionDefines, mergeDefines } from "./attributes.js";
import type { LoweringContext } from "./context.js";
import { decodeArguments, isDecoding, partArguments } from "./decode-attention.js";
import type { HandedInput } from "./inputs.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { cacheDefines, preparationDefines } from "./rope.js";

export interface DeepAttention {
  readonly launches: readonly LaunchSpec[];
  /** Whether a step of this size takes these launches. */
  isTaken(size: LaunchSize): boolean;
}

/** Undefined if steps of every size take the other forms of attention. */
export function deepAttention(
  context: LoweringContext,
  operation: AttentionOperation,
  handed: HandedInput | undefined,
  group: HeadStoreGroup,
): DeepAttention | undefined {
  const { device, kind, limits, deterministic } = context.options;
  const shape = deepShape(limits.kvCacheType, operation, { ...device, copiesInBackground: kind === "cuda" });
  if (deterministic || shape === undefined) return undefined;
  const { heads, kvHeads, valueWidth } = operation;
  const { mostParts, sharedBytes } = shape;
  const written = writtenOutput(context.matrix(operation.out), handed);
  const isWhole = (size: LaunchSize): boolean => fillsDevice(shape, operation, size);
  const isTaken = (size: LaunchSize): boolean =>
    isDecoding(context, size) && (isDeep(operation, size.splits) || isWhole(size));
  const defines = {
    ...cacheDefines(context, operation),
    ...preparationDefines(context, group),
    ...attentionDefines(operation),
    ...shape.defines,
    GROUP: heads / kvHeads,
  };
  const attention: LaunchSpec = {
    label: "rope, store and deep attention",
    file: "attention/deep-decode",
    variants: [defines, { ...defines, ...written.forms[0], WHOLE: 1 }].map((own) => ({
      kernel: "attention_deep_decode",
      defines: own,
      sharedBytes,
    })),
    choose: (size) => (isWhole(size) ? 1 : 0),
    arguments: {
      ...decodeArguments(context, operation, group),
      ...written.values,
      sinks: context.weight(operation.sinks),
      most_parts: mostParts,
    },
    grid: (size) => [
      isTaken(size) ? shape.blocks : 0,
      isWhole(size) ? 1 : deepParts(shape, visibleSplits(operation, size.splits)),
      size.tokens,
    ],
  };
  const combine: LaunchSpec = {
    label: "deep attention, merged",
    file: "attention/deep-combine",
    variants: [
      {
        kernel: "attention_deep_combine",
        defines: { ...mergeDefines(operation), VALUE_WIDTH: valueWidth, ...written.forms[0] },
      },
    ],
    arguments: { ...partArguments(context, operation, 0), ...written.from(0), most_parts: mostParts },
    grid: (size) => [isTaken(size) && !isWhole(size) ? heads * deepCombinedBlocks(valueWidth) : 0, size.tokens, 1],
  };
  return { launches: [attention, combine], isTaken };
}
