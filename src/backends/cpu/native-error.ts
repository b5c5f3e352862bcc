// Translates errors of the addon into this package's own. CANCELLED is not translated: the caller that cancelled the step
// knows why.

import { BackendError, GgufError } from "../../errors.js";
import { hostMemory } from "../host-memory.js";
import type { NativeError } from "./native-bindings.js";

/** Whether the addon threw this error. */
export function isNativeError(error: unknown): error is NativeError {
  if (!(error instanceof Error)) return false;
  const { code } = error as Partial<NativeError>;
  return code === "INVALID" || code === "MEMORY" || code === "TRUNCATED" || code === "CANCELLED";
}

/** The code for an INVALID of the addon: an inconsistent step, or something that this backend does not support. */
type RefusalCode = "BACKEND_STEP" | "BACKEND_UNSUPPORTED";

/** Translates an error of the addon; returns other errors unchanged. */
export function translateNativeError(error: unknown, refusal: RefusalCode): unknown {
  if (!isNativeError(error)) return error;
  switch (error.code) {
    case "INVALID":
      return new BackendError(refusal, `[cpu] ${error.message}`, { cause: error });
    case "MEMORY":
      return memoryError(error);
    case "TRUNCATED":
      return new GgufError(
        "GGUF_TRUNCATED",
        {
          field: "tensor data",
          expected: "a file that can be read while it is open",
          found: "one that has shrunk, or a disk that fails",
        },
        { cause: error },
      );
    case "CANCELLED":
      return error;
    default:
      return error.code satisfies never;
  }
}

function memoryError(error: NativeError): BackendError {
  const { availableBytes } = hostMemory();
  return new BackendError("BACKEND_MEMORY", `[cpu] ${error.message}; ${availableBytes} bytes are free`, {
    details: { availableBytes, ...(error.neededBytes === undefined ? {} : { neededBytes: error.neededBytes }) },
    cause: error,
  });
}

/** Runs a call into the addon and translates the error that it throws. */
export function native<Result>(refusal: RefusalCode, call: () => Result): Result {
  try {
    return call();
  } catch (error) {
    throw translateNativeError(error, refusal);
  }
}
