// Every kind of operation that the kernels compute: an operation without an entry does not compile. Support is checked
// when a plan is built and not in the middle of a request.

import type { Operation, OperationKind } from "../../../graph/operation.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { Support } from "../../contract.js";
import { unsupportedUploadReason } from "../memory/upload.js";
import { hasDeviceLayout } from "../memory/weight-layout.js";
import { ATTENTION_LOWERINGS } from "./attention.js";
import { CONCAT_LOWERINGS } from "./concat.js";
import type { LoweringContext } from "./context.js";
import { EXPERT_LOWERINGS } from "./experts.js";
import { GLU_LOWERINGS } from "./glu.js";
import { GROUPED_MATMUL_LOWERINGS } from "./grouped-matmul.js";
import { MATMUL_LOWERINGS } from "./matmul-groups.js";
import type { OperationLowering, OperationLowerings, OperationSite } from "./operation-lowering.js";
import { RECURRENT_LOWERINGS } from "./recurrent.js";
import { ROPE_LOWERINGS } from "./rope.js";
import { ROW_LOWERINGS } from "./rows.js";
import type { StepItem } from "./step-item.js";

const LOWERINGS: OperationLowerings<OperationKind> = {
  ...ROW_LOWERINGS,
  ...GLU_LOWERINGS,
  ...ROPE_LOWERINGS,
  ...MATMUL_LOWERINGS,
  ...ATTENTION_LOWERINGS,
  ...EXPERT_LOWERINGS,
  ...GROUPED_MATMUL_LOWERINGS,
  ...CONCAT_LOWERINGS,
  ...RECURRENT_LOWERINGS,
};

export function supportsOperation(operation: Operation, weights: readonly TensorDescriptor[]): Support {
  for (const weight of weights) {
    if (!hasDeviceLayout(weight.layout.name))
      return { reason: `${weight.name} is ${weight.layout.name}, which has no GPU kernels; convert the model` };
    const problem = weight.onHost === true ? undefined : unsupportedUploadReason(weight);
    if (problem !== undefined) return { reason: `${weight.name}: ${problem}` };
  }
  return entryOf(operation).supports?.(operation, weights) ?? true;
}

/** The launches and BLAS matmuls of an operation that is a group of its own. */
export function lowerOperation(
  context: LoweringContext,
  operation: Operation,
  site: OperationSite,
): readonly StepItem[] {
  return entryOf(operation).lower(context, operation, site);
}

function entryOf({ kind }: Operation): OperationLowering<OperationKind> {
  return LOWERINGS[kind] as OperationLowering<OperationKind>;
}
