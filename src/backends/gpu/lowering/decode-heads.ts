// Query heads of a block of attention/decode.hip: fewer are done sooner, more read the cache fewer times. How many are best
// depends on the blocks of a step, so steps with about as many tokens times splits share a choice. Bits are the same.

import type { AttentionOperation } from "../../../graph/operation.js";
import { decodeBlockHeads, splitRows, visibleSplits } from "../memory/kv-layout.js";
import type { Defines } from "../kernels/kernel-source.js";
import { attentionKey } from "./attributes.js";
import type { LoweringContext } from "./context.js";
import type { TunedVariant } from "./kernel-choices.js";
import type { ParametersOf } from "./kernel-families.js";
import type { LaunchSize } from "./launch.js";

export const DECODE_FILE = "attention/decode";
/**
 * Blocks for each multiprocessor, up to which a block takes fewer query heads: it is done sooner, but rows are read again.
 */
const MAX_SINGLE_BLOCKS = 2;
/** Numbers of query heads that kernels are made for, besides those of the formula. */
const COUNTS = [1, 2, 4, 8];
/** Tokens times splits of a step, as a power of two, from which on all steps are alike: a device is full by far. */
const MAX_WORK_POWER = 10;

type DecodeParameters = ParametersOf<"decode-attention">;

export interface DecodeHeads {
  /** Numbers of heads that a block may have, the most first. */
  readonly counts: readonly number[];
  /** Index in `counts` for a step of this size. */
  indexFor(size: LaunchSize): number;
  tunedFor(size: LaunchSize): TunedVariant;
}

/** `definesFor`: of the kernel with that many heads a block. */
export function decodeHeads(
  context: LoweringContext,
  operation: AttentionOperation,
  definesFor: (blockHeads: number) => Defines,
): DecodeHeads {
  const { device, kind, limits } = context.options;
  const usual = decodeBlockHeads(limits.kvCacheType, operation, kind);
  const others = COUNTS.filter((count) => count < usual[0] && !usual.includes(count));
  const counts = [...usual, ...others].toSorted((left, right) => right - left);
  const workOf = (size: LaunchSize): number => size.tokens * visibleSplits(operation, size.splits);
  const mostBlocks = device.multiprocessors * MAX_SINGLE_BLOCKS;
  /** The choice of fewest heads whose blocks the device runs together, else that of the most heads. */
  const usualIndex = (work: number): number => {
    const fits = (blockHeads: number): boolean => work * splitRows(operation, blockHeads) <= mostBlocks;
    return counts.indexOf(usual[Math.max(0, usual.findLastIndex(fits))]);
  };
  const tuned = Array.from({ length: MAX_WORK_POWER + 1 }, (_, power) =>
    context.choices.variant<DecodeParameters>({
      family: "decode-attention",
      key: `${attentionKey(context, operation)} b${2 ** power}`,
      usual: { heads: 0 },
      isValid: ({ heads }) => heads === 0 || counts.includes(heads),
      moduleOf: ({ heads }) => ({
        file: DECODE_FILE,
        defines: definesFor(heads === 0 ? counts[usualIndex(2 ** power)] : heads),
      }),
    }),
  );
  const chosen = tuned.map(({ parameters: { heads } }) => counts.indexOf(heads));
  const powerOf = (work: number): number => Math.min(MAX_WORK_POWER, Math.ceil(Math.log2(Math.max(1, work))));
  return {
    counts,
    indexFor(size) {
      const work = workOf(size);
      const index = chosen[powerOf(work)];
      return index === -1 ? usualIndex(work) : index;
    },
    tunedFor: (size) => tuned[powerOf(workOf(size))],
  };
}
