// Failures in the engine loop: which requests they belong to, and which end the loop.

import { FileError, GgufError, RocmForgeError, ServingError } from "../errors.js";
import type { StepReader } from "./step-reader.js";

/** A failure of one request does not reach the others. */
export function attempt(reader: StepReader, work: () => void): void {
  try {
    work();
  } catch (error) {
    failAlone(reader, error);
  }
}

/** A reader that throws while it fails does not affect the others. */
export function failAlone(reader: StepReader | undefined, error: unknown): void {
  try {
    reader?.fail(error);
  } catch {
    // The request has already failed, or cannot be notified.
  }
}

/**
 * Whether nothing can be computed after this error: weights that cannot be read now may have been read wrong before.
 */
export function isFatal(error: unknown): boolean {
  if (!(error instanceof RocmForgeError)) return false;
  return (
    error.code === "GPU_DEVICE_LOST" ||
    error.code === "DISPOSED" ||
    error instanceof GgufError ||
    error instanceof FileError ||
    isFatal(error.cause)
  );
}

/** A request that finds too many others waiting. */
export function queueFull(queued: number, retryAfterMs: number): ServingError {
  return new ServingError(
    "SERVING_QUEUE_FULL",
    `[complete] ${queued} requests are already queued; try again in ${Math.ceil(retryAfterMs / 1000)} s`,
    {
      details: { queued, retryAfterMs },
    },
  );
}
