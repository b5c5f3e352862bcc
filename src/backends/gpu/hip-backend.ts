// The GPU backend on AMD's runtime.

import type { Backend, BackendOptions } from "../contract.js";
import { createGpuBackend } from "./backend.js";
import { type DriverObstacle, isObstacle } from "./drivers/shared/driver-library.js";
import { findHip } from "./drivers/hip/detect.js";

/** What stands in the way is given and not thrown: `auto` goes on to the next backend. */
export function createBackend(backendOptions: BackendOptions): Backend | DriverObstacle {
  const found = findHip();
  return isObstacle(found) ? found : createGpuBackend({ ...found, name: "hip", backendOptions });
}
