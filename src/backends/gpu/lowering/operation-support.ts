// What the kernels can compute, checked when a plan is built and not in the middle of a request.

import type { Operation } from "../../../graph/operation.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { Support } from "../../contract.js";
import { supportsAttention, supportsRope } from "../memory/kv-layout.js";
import { isPlain } from "./matmul-selection.js";
import { unsupportedUploadReason } from "../memory/upload.js";
import { hasDeviceLayout } from "../memory/weight-layout.js";

export function supportsOperation(operation: Operation, weights: readonly TensorDescriptor[]): Support {
  for (const weight of weights) {
    if (!hasDeviceLayout(weight.layout.name))
      return { reason: `${weight.name} is ${weight.layout.name}, which has no GPU kernels; convert the model` };
    const problem = unsupportedUploadReason(weight);
    if (problem !== undefined) return { reason: `${weight.name}: ${problem}` };
  }
  switch (operation.kind) {
    case "attention": {
      const [sinks] = weights;
      return sinks === undefined ? supportsAttention(operation) : floats("sinks", sinks, supportsAttention(operation));
    }
    case "rope": {
      const [factors] = weights;
      return factors === undefined ? supportsRope(operation) : floats("factors", factors, supportsRope(operation));
    }
    case "matmul": {
      const factor = operation.scale === undefined ? undefined : weights[1];
      return factor === undefined ? true : floats("scale", factor, true);
    }
    case "rms-norm":
      return isPlain(weights[0])
        ? true
        : { reason: `a norm weight of ${weights[0].layout.name} is not read element by element` };
    case "embed":
    case "quantize-activations":
    case "kv-write":
    case "glu":
    case "add":
    case "select-rows":
      return true;
    default:
      return operation satisfies never;
  }
}

/** Support for a weight that kernels read as f32 only. */
function floats(what: string, { name, layout }: TensorDescriptor, otherwise: Support): Support {
  return layout.name === "F32"
    ? otherwise
    : { reason: `${name}: ${what} of ${layout.name} are not read here, only F32` };
}
