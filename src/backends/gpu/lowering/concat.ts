// Launches of concat-heads: the columns of two values joined head by head.

import type { ConcatHeadsOperation } from "../../../graph/operation.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { type LoweringContext, rowsOf } from "./context.js";
import { MAX_SMALL_BATCH } from "./matmul-selection.js";
import type { SomeOperationLowerings } from "./operation-lowering.js";

/** Heads of one thread block of attention/concat.hip if there are many tokens. */
const HEADS_OF_MANY = 8;

function lowerConcat(context: LoweringContext, operation: ConcatHeadsOperation): LaunchSpec {
  const { heads, leftWidth, rightWidth, rightStride, rightOffset } = operation;
  const [left, right, out] = [operation.left, operation.right, operation.out].map((id) => context.matrix(id));
  const headsFor = (size: LaunchSize): number => (rowsOf(size, out.rows) <= MAX_SMALL_BATCH ? 1 : HEADS_OF_MANY);
  return {
    label: "concat heads",
    file: "attention/concat",
    variants: [{ kernel: "concat_heads", defines: { ROTARY_WIDTH: 0 } }],
    arguments: {
      positions: context.stepField("positions"),
      factors: 0,
      stretches: 0,
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
      ratio: 1,
      magnitude: 1,
    },
    sized: (size) => ({ heads_per_block: headsFor(size) }),
    grid: (size) => [Math.ceil(heads / headsFor(size)), rowsOf(size, out.rows), 1],
  };
}

export const CONCAT_LOWERINGS = {
  "concat-heads": { lower: (context, operation) => [lowerConcat(context, operation)] },
} satisfies SomeOperationLowerings;
