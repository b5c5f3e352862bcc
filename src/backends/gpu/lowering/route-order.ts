// A router's choice and the order of its slots by expert: one launch for steps of few rows (rows/route-order.hip), two
// (rows/route.hip, matmul/expert-order.hip) for others.

import type { RouteExpertsOperation } from "../../../graph/operation.js";
import { routingDefines } from "./attributes.js";
import { type LoweringContext, rowsOf } from "./context.js";
import { expertOrderLaunch, orderArguments, orderTile } from "./expert-order.js";
import type { RoutedMatmul } from "./expert-tiles.js";
import { lowerRoute } from "./experts.js";
import { type LaunchSize, type LaunchSpec, onlyIf } from "./launch.js";
import { rowGrid } from "./rows.js";

/** kOrderedRows of rows/route-order.hip: every step that a captured graph serves. */
const MAX_ORDERED_ROWS = 64;
const RUN_SLOTS = 32;
/** Counts of runs and experts that the kernel has shared memory for: 16 KB. */
const MAX_COUNTS = 8192;

/** `matmul` is the first that reads the order; `isSorted` names the steps that take matmul/sorted-gemv.hip. */
export function routeAndOrder(
  context: LoweringContext,
  route: RouteExpertsOperation,
  matmul: RoutedMatmul,
  isSorted?: (size: LaunchSize) => boolean,
): readonly LaunchSpec[] {
  const apart = [lowerRoute(context, route), expertOrderLaunch(context, matmul, isSorted)];
  const logits = context.matrix(route.input);
  const runs = Math.ceil((MAX_ORDERED_ROWS * route.used) / RUN_SLOTS);
  if (runs * logits.width > MAX_COUNTS || context.regions.tileBlocks === 0) return apart;
  const isFew = (size: LaunchSize): boolean => rowsOf(size, logits.rows) <= MAX_ORDERED_ROWS;
  return [
    onlyIf(isFew, routeOrderLaunch(context, route, matmul, isSorted)),
    ...apart.map((launch) => onlyIf((size) => !isFew(size), launch)),
  ];
}

function routeOrderLaunch(
  context: LoweringContext,
  route: RouteExpertsOperation,
  matmul: RoutedMatmul,
  isSorted?: (size: LaunchSize) => boolean,
): LaunchSpec {
  const [logits, out] = [context.matrix(route.input), context.matrix(route.out)];
  return {
    label: "route and order of experts",
    file: "rows/route-order",
    variants: [{ kernel: "route_order", defines: routingDefines(route, logits.width) }],
    arguments: {
      logits: logits.place,
      bias: context.weight(route.bias),
      row_count: context.rowCount(out.rows),
      out: out.place,
      arrivals: context.regions.tileArrivals,
      ...orderArguments(context),
      logits_stride: logits.stride,
      out_stride: out.stride,
    },
    sized: (size) => ({ tile_tokens: orderTile(context, matmul, size, isSorted) }),
    grid: rowGrid(out.rows),
  };
}
