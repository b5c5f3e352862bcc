// Launches of concat-heads: the columns of two values joined head by head.

import type { ConcatHeadsOperation, RopeOperation } from "../../../graph/operation.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { SomeOperationLowerings } from "./operation-lowering.js";
import { rotationArguments, rotationDefines } from "./rope.js";

/** Heads of one thread block of attention/concat.hip if there are many of them, so that rotations are computed less often. */
const HEADS_OF_MANY = 8;
/** Blocks for each multiprocessor up to which every head has a block of its own. */
const MAX_SINGLE_BLOCKS = 16;

/** `rope` rotates the right part on the way, if it is given. */
export function lowerConcat(
  context: LoweringContext,
  operation: ConcatHeadsOperation,
  rope?: RopeOperation,
): LaunchSpec {
  const { heads, leftWidth, rightWidth, rightStride, rightOffset } = operation;
  const inputs = [operation.left, rope?.input ?? operation.right, operation.out];
  const [left, right, out] = inputs.map((id) => context.matrix(id));
  const { step: _, ...rotation } = rotationArguments(context, rope);
  const mostBlocks = context.options.device.multiprocessors * MAX_SINGLE_BLOCKS;
  const headsFor = (size: LaunchSize): number => (rowsOf(size, out.rows) * heads <= mostBlocks ? 1 : HEADS_OF_MANY);
  return {
    label: rope === undefined ? "concat heads" : "rope and concat heads",
    file: "attention/concat",
    variants: [
      { kernel: "concat_heads", defines: rotationDefines(rope === undefined ? rope : { ...rope, firstColumn: 0 }) },
    ],
    arguments: {
      ...rotation,
      row_count: context.rowCount(out.rows),
      left: left.place,
      right: right.place,
      out: out.place,
      left_stride: left.stride,
      right_stride: right.stride,
      out_stride: out.stride,
      heads,
      left_width: leftWidth,
      right_width: rightWidth,
      head_stride: rightStride,
      head_offset: rightOffset,
    },
    sized: (size) => ({ heads_per_block: headsFor(size) }),
    grid: (size) => [Math.ceil(heads / headsFor(size)), rowsOf(size, out.rows), 1],
  };
}

export const CONCAT_LOWERINGS = {
  "concat-heads": { lower: (context, operation) => [lowerConcat(context, operation)] },
} satisfies SomeOperationLowerings;
