// The GPU backend on NVIDIA's driver.

import type { Backend, BackendOptions } from "../contract.js";
import { createGpuBackend } from "./backend.js";
import { type UnavailableDriver, isUnavailableDriver } from "./drivers/shared/driver-library.js";
import { detectCuda } from "./drivers/cuda/detect.js";

/** Returns the reason if it cannot run, instead of throwing it: `auto` tries the next backend. */
export function createCudaBackend(backendOptions: BackendOptions): Backend | UnavailableDriver {
  const found = detectCuda();
  return isUnavailableDriver(found) ? found : createGpuBackend({ ...found, name: "cuda", backendOptions });
}
