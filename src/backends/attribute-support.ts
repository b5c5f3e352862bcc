// Attributes of operations that a backend may lack kernels for. A plan asks before it is built, so that a model is
// refused with the reason instead of being computed without the attribute.

import type { Operation } from "../graph/operation.js";
import type { Support } from "./contract.js";

/** True unless the operation has an attribute beyond plain attention, SwiGLU, embedding and matmul. */
export function supportsPlainAttributes(operation: Operation): Support {
  const missing = unusualAttribute(operation);
  return missing === undefined ? true : { reason: `this backend has no kernel for ${operation.kind} with ${missing}` };
}

function unusualAttribute(operation: Operation): string | undefined {
  switch (operation.kind) {
    case "embed":
      return operation.scale === undefined ? undefined : "a scale";
    case "matmul":
      return operation.softCap === undefined ? undefined : "a logit soft-cap";
    case "glu":
      return operation.activation === "silu" ? undefined : `the activation ${operation.activation}`;
    case "attention":
      if (operation.window !== undefined) return "a sliding window";
      if (operation.softCap !== undefined) return "a logit soft-cap";
      return operation.sinks === undefined ? undefined : "attention sinks";
    default:
      return undefined;
  }
}
