// Grouped matmuls as launches: the experts that the router chose, or one matrix for each head.

import type { GroupedMatmulOperation } from "../../../graph/operation.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { Support } from "../../contract.js";
import { classOf, type LoweringContext, type LoweringSize, rowsOf, type ValuePlace } from "./context.js";
import { canBeNormed } from "./fused-norm-shape.js";
import { gatedExpertsAt } from "./gated-experts.js";
import { groupedGemm, usesGroupedGemm } from "./grouped-gemm.js";
import { groupedGemvFloatLaunch, groupedGemvLaunch, type SlotRows } from "./grouped-gemv.js";
import { isAligned } from "./inputs.js";
import type { LaunchSpec } from "./launch.js";
import { isPlain } from "./matmul-selection.js";
import {
  type OperationSite,
  type SomeOperationLowerings,
  supportsFloats,
  supportsPlain,
} from "./operation-lowering.js";
import { groupedInput, type QuantizedPlace } from "./regions.js";
import { heldQuads } from "./rows.js";

function supportsGrouped({ scale, bias }: GroupedMatmulOperation, [, ...others]: readonly TensorDescriptor[]): Support {
  const biases = bias === undefined ? true : supportsPlain("a bias of matrices", others.slice(-1));
  return supportsFloats("scales", scale === undefined ? undefined : others[0], biases);
}

/** The columns of every slot, quantized to rows of their own. */
function quantizeSlots(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
): { readonly launch: LaunchSpec; readonly place: QuantizedPlace } {
  const input = context.matrix(operation.input);
  const { slots, width, place } = groupedInput(context.options, operation, context.regions.input);
  const launch: LaunchSpec = {
    label: "input of slots",
    file: "rows/quantize",
    variants: [{ kernel: "quantize_slots", defines: { HELD: heldQuads(width) } }],
    arguments: {
      input: input.place,
      row_count: context.rowCount(input.rows),
      values: place.values,
      scales: place.scales,
      sums: place.sums,
      width,
      input_stride: input.stride,
      slots,
      slot_stride: operation.inputStride,
    },
    grid: (size) => [rowsOf(size, input.rows), slots, 1],
  };
  return { launch, place };
}

/** A grouped matmul that writes to `out`. */
export function lowerGrouped(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
  { groupIndex, matmuls: { size }, slots }: Pick<OperationSite, "groupIndex" | "matmuls" | "slots">,
  out: () => ValuePlace,
): readonly LaunchSpec[] {
  const gated = gatedExpertsAt(context, groupIndex, size);
  if (gated !== undefined) {
    const { gate, up, activation } = gated;
    const wanted = { matmuls: [gate, up], gated: activation.activation, out: context.matrix(activation.out) } as const;
    return groupedGemm(context, wanted, groupIndex, size);
  }
  if (usesGroupedGemm(context, operation, size))
    return groupedGemm(context, { matmuls: [operation], out: out() }, groupIndex, size, slots);
  const { routing: routingId, weight, inputStride } = operation;
  const rows = routingId === undefined ? undefined : context.matrix(routingId);
  if (isPlain(context.options.weights[weight]))
    return [
      groupedGemvFloatLaunch(context, operation, {
        input: context.matrix(operation.input),
        routing: rows,
        out: out(),
      }),
    ];
  const floats = quantizedInside(context, operation, size);
  const { launch, place } = quantizeSlots(context, operation);
  const matmul = groupedGemvLaunch(context, {
    label: "grouped gemv",
    matmuls: [operation],
    input: { place, perSlot: inputStride !== 0, ...(floats === undefined ? {} : { floats }) },
    routing: rows === undefined ? undefined : { from: "routing", rows },
    out: out(),
  });
  return floats === undefined ? [launch, matmul] : [matmul];
}

/** The rows of small batches are quantized by every block that reads them, which spares a launch. */
function quantizedInside(
  context: LoweringContext,
  { input, weight, inputStride }: GroupedMatmulOperation,
  size: LoweringSize,
): SlotRows["floats"] {
  const rows = context.matrix(input);
  const isSmall = context.options.deterministic || classOf(size, rows.rows) === "small";
  const [width] = context.options.weights[weight].shape;
  if (!isSmall || !isAligned(rows) || inputStride % 4 !== 0 || !canBeNormed(width)) return undefined;
  return { ...rows, slotStride: inputStride };
}

export const GROUPED_MATMUL_LOWERINGS = {
  "grouped-matmul": {
    supports: supportsGrouped,
    lower: (context, operation, site) => lowerGrouped(context, operation, site, () => context.matrix(operation.out)),
  },
} satisfies SomeOperationLowerings;
