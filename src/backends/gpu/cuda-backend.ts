// The GPU backend on NVIDIA's driver.

import type { Backend, BackendOptions } from "../contract.js";
import { createGpuBackend } from "./backend.js";
import { type DriverObstacle, isObstacle } from "./drivers/shared/driver-library.js";
import { findCuda } from "./drivers/cuda/detect.js";

/** What stands in the way is given and not thrown: `auto` goes on to the next backend. */
export function createBackend(backendOptions: BackendOptions): Backend | DriverObstacle {
  const found = findCuda();
  return isObstacle(found) ? found : createGpuBackend({ ...found, name: "cuda", backendOptions });
}
