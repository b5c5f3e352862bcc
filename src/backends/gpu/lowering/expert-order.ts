// The launch of matmul/expert-order.hip: the slots of all tokens sorted by expert and cut into tiles, once for the matmuls
// of a layer's experts. Its grid does not depend on how the router chose, so that captured graphs serve every choice.

import { type LoweringContext, rowsOf } from "./context.js";
import { expertTile, matrixCount, type RoutedMatmul } from "./expert-tiles.js";
import { TILE_TOKEN_COUNTS, type TileTokens } from "./gemm-shape.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";

/** Experts that the kernel counts in shared memory. */
export const MAX_ORDERED_EXPERTS = 1024;

/** Tokens of the tiles for a step of this size. */
export function tileTokens(context: LoweringContext, operation: RoutedMatmul, size: LaunchSize): TileTokens {
  return TILE_TOKEN_COUNTS[tileIndex(context, operation, size)];
}

/** Index of `tileTokens` in `TILE_TOKEN_COUNTS`. */
export function tileIndex(context: LoweringContext, operation: RoutedMatmul, size: LaunchSize): number {
  const tokens = rowsOf(size, context.values[operation.input].rows);
  return expertTile(tokens, operation.slots, matrixCount(operation, context.options.weights[operation.weight]));
}

/** Sorts the slots of a step by the experts that were chosen for the matmul's rows. */
export function expertOrderLaunch(context: LoweringContext, operation: RoutedMatmul): LaunchSpec {
  const { rows, place, stride } = context.matrix(operation.routing);
  const experts = matrixCount(operation, context.options.weights[operation.weight]);
  const { slots, tiles, tileCount } = context.regions.expertOrder;
  return {
    label: "order of experts",
    file: "matmul/expert-order",
    variants: [{ kernel: "expert_order", defines: { USED: operation.slots, EXPERTS: experts } }],
    arguments: {
      routing: place,
      row_count: context.rowCount(rows),
      slots,
      tiles,
      tile_count: tileCount,
      routing_stride: stride,
    },
    sized: (size) => ({ tile_tokens: tileTokens(context, operation, size) }),
    grid: (size) => [rowsOf(size, rows) === 0 ? 0 : experts, 1, 1],
  };
}
