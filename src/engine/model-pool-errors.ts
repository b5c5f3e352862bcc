// Failures of loading a model into the pool: which of them another model's memory would solve, and the one of a full pool.

import { RocmForgeError, ServingError } from "../errors.js";

/** Whether a model did not fit, so that unloading another may help. */
export function isOutOfMemory(error: unknown): boolean {
  return (
    error instanceof RocmForgeError &&
    (error.code === "BACKEND_MEMORY" || error.code === "GPU_OUT_OF_MEMORY" || error.code === "TENSOR_BUDGET")
  );
}

/** The error of a model that cannot be loaded because all others are in use. */
export function allInUse(name: string, maxLoaded: number): ServingError {
  return new ServingError(
    "SERVING_QUEUE_FULL",
    `[models] "${name}" cannot be loaded: ${maxLoaded} models are loaded, and all of them are in use; try again later`,
    {
      details: { model: name, retryAfterMs: 5000 },
    },
  );
}
