// Launches of the router of a mixture of experts and of the sum over its slots. Their matmuls are in grouped-matmul.ts.

import type { RouteExpertsOperation, SumSlotsOperation } from "../../../graph/operation.js";
import type { Support } from "../../contract.js";
import { routingDefines } from "./attributes.js";
import { type LoweringContext, rowsOf, type ValuePlace } from "./context.js";
import type { LaunchSpec, MemoryPlace } from "./launch.js";
import { type SomeOperationLowerings, supportsFloats } from "./operation-lowering.js";
import { quadGrid, rowGrid } from "./rows.js";

/** Threads of rows/expert-choice.h that choose: one for each chosen expert at least. */
const CHOICE_THREADS = 128;
/** A wave of every device has a lane for each of as many chosen experts, and registers for the scores of as many. */
const MAX_WAVE_CHOICE = { used: 32, experts: 512 } as const;
/** Rows of a block that chooses for a row in each wave. */
const WAVE_ROWS = 4;

function supportsRoute({ used }: RouteExpertsOperation): Support {
  return used <= CHOICE_THREADS || { reason: `a router that chooses ${used} experts, more than ${CHOICE_THREADS}` };
}

/** The launch of a router's choice. */
export function lowerRoute(context: LoweringContext, operation: RouteExpertsOperation): LaunchSpec {
  const [logits, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  const defines = routingDefines(operation, logits.width);
  const { used, groups = 1 } = operation;
  const byWave = groups === 1 && used <= MAX_WAVE_CHOICE.used && logits.width <= MAX_WAVE_CHOICE.experts;
  return {
    label: "route",
    file: "rows/route",
    variants: [
      byWave
        ? { kernel: "route_experts_waves", defines: { ...defines, ROW_WAVES: 1 } }
        : { kernel: "route_experts", defines },
    ],
    arguments: {
      logits: logits.place,
      bias: context.weight(operation.bias),
      row_count: context.rowCount(out.rows),
      out: out.place,
      logits_stride: logits.stride,
      out_stride: out.stride,
    },
    grid: byWave ? (size) => [Math.ceil(rowsOf(size, out.rows) / WAVE_ROWS), 1, 1] : rowGrid(out.rows),
  };
}

/** What is added to the sum over slots, and where it goes. */
export interface SlotSum {
  readonly out: ValuePlace;
  readonly shared?: ValuePlace;
  /** A column, of which σ is the weight of `shared`; undefined: it has none. */
  readonly sharedWeight?: MemoryPlace | undefined;
  readonly residual?: ValuePlace;
}

/** What the kernels that sum over slots are given. */
export function sumArguments(
  context: LoweringContext,
  { input: source, slots }: SumSlotsOperation,
  { out, shared, sharedWeight, residual }: SlotSum,
): LaunchSpec["arguments"] {
  const input = context.matrix(source);
  return {
    input: input.place,
    shared: shared?.place ?? 0,
    shared_weight: sharedWeight ?? 0,
    residual: residual?.place ?? 0,
    row_count: context.rowCount(out.rows),
    out: out.place,
    slots,
    width: out.width,
    input_stride: input.stride,
    shared_stride: shared?.stride ?? 0,
    residual_stride: residual?.stride ?? 0,
    out_stride: out.stride,
  };
}

/** The launch of the sum over the slots of a network's last matmul. */
export function slotSumLaunch(context: LoweringContext, operation: SumSlotsOperation, wanted: SlotSum): LaunchSpec {
  return {
    label: "sum of slots",
    file: "rows/elementwise",
    variants: [{ kernel: "sum_slots", defines: {} }],
    arguments: sumArguments(context, operation, wanted),
    grid: quadGrid(wanted.out),
  };
}

export const EXPERT_LOWERINGS = {
  "route-experts": {
    supports: (operation, [bias]) => supportsFloats("selection biases", bias, supportsRoute(operation)),
    lower: (context, operation) => [lowerRoute(context, operation)],
  },
  "sum-slots": {
    lower: (context, operation) => [slotSumLaunch(context, operation, { out: context.matrix(operation.out) })],
  },
} satisfies SomeOperationLowerings;
