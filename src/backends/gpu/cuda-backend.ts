// The GPU backend on NVIDIA's driver.

import type { Backend, BackendOptions } from "../contract.js";
import { createGpuBackend } from "./backend.js";
import { type UnavailableDriver, isUnavailableDriver } from "./drivers/shared/driver-library.js";
import { detectCuda } from "./drivers/cuda/detect.js";

/** Creates the `cuda` backend, or returns why it cannot run: `auto` then tries the next backend. */
export function createCudaBackend(
  backendOptions: BackendOptions,
  openOracle?: () => Promise<Backend>,
): Backend | UnavailableDriver {
  const found = detectCuda();
  return isUnavailableDriver(found) ? found : createGpuBackend({ ...found, name: "cuda", backendOptions, openOracle });
}
