// Grouped matmuls as launches: the experts that the router chose, or one matrix for each head.

import type { GroupedMatmulOperation } from "../../../graph/operation.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { Support } from "../../contract.js";
import { type LoweringContext, rowsOf } from "./context.js";
import { groupedGemm, usesGroupedGemm } from "./grouped-gemm.js";
import { groupedGemvFloatLaunch, groupedGemvLaunch } from "./grouped-gemv.js";
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

function lowerGrouped(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
  { groupIndex, matmuls: { size } }: OperationSite,
): readonly LaunchSpec[] {
  if (usesGroupedGemm(context, operation, size))
    return groupedGemm(context, { matmuls: [operation], out: context.matrix(operation.out) }, groupIndex, size);
  const { routing: routingId, weight, inputStride } = operation;
  const rows = routingId === undefined ? undefined : context.matrix(routingId);
  if (isPlain(context.options.weights[weight]))
    return [groupedGemvFloatLaunch(context, operation, context.matrix(operation.input), rows)];
  const { launch, place } = quantizeSlots(context, operation);
  const matmul = groupedGemvLaunch(context, {
    label: "grouped gemv",
    matmuls: [operation],
    input: { place, perSlot: inputStride !== 0 },
    routing: rows === undefined ? undefined : { from: "routing", rows },
    out: context.matrix(operation.out),
  });
  return [launch, matmul];
}

export const GROUPED_MATMUL_LOWERINGS = {
  "grouped-matmul": {
    supports: supportsGrouped,
    lower: (context, operation, site) => lowerGrouped(context, operation, site),
  },
} satisfies SomeOperationLowerings;
