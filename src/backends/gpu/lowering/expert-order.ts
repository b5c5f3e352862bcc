// The launch of matmul/expert-order.hip: the slots of all tokens sorted by expert and cut into tiles, once for the matmuls
// of a layer's experts. Its grid does not depend on how the router chose, so that captured graphs serve every choice.

import { type LoweringContext, rowsOf } from "./context.js";
import { expertTile, matrixCount, type RoutedMatmul, SORTED_TILE_TOKENS } from "./expert-tiles.js";
import { TILE_TOKEN_COUNTS, type TileTokens } from "./gemm-shape.js";
import { isAligned } from "./inputs.js";
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

/** Tokens of the tiles of a step; `isSorted` names the steps that take matmul/sorted-gemv.hip. */
export function orderTile(
  context: LoweringContext,
  operation: RoutedMatmul,
  size: LaunchSize,
  isSorted: (size: LaunchSize) => boolean = () => false,
): number {
  return isSorted(size) ? SORTED_TILE_TOKENS : tileTokens(context, operation, size);
}

/** Where the kernels that sort leave what they find. */
export function orderArguments({ regions }: LoweringContext): LaunchSpec["arguments"] {
  const { slots, tiles, tileCount } = regions.expertOrder;
  return { slots, tiles, tile_count: tileCount };
}

/**
 * Sorts the slots of a step by the experts that were chosen for the matmul's rows. `isSorted` names the steps that take
 * matmul/sorted-gemv.hip.
 */
export function expertOrderLaunch(
  context: LoweringContext,
  operation: RoutedMatmul,
  isSorted?: (size: LaunchSize) => boolean,
): LaunchSpec {
  const routing = context.matrix(operation.routing);
  const { rows, place, stride } = routing;
  const experts = matrixCount(operation, context.options.weights[operation.weight]);
  return {
    label: "order of experts",
    file: "matmul/expert-order",
    variants: [
      {
        kernel: "expert_order",
        defines: { USED: operation.slots, EXPERTS: experts, ALIGNED: isAligned(routing) ? 1 : 0 },
      },
    ],
    arguments: {
      routing: place,
      row_count: context.rowCount(rows),
      ...orderArguments(context),
      routing_stride: stride,
    },
    sized: (size) => ({ tile_tokens: orderTile(context, operation, size, isSorted) }),
    grid: (size) => [rowsOf(size, rows) === 0 ? 0 : experts, 1, 1],
  };
}
