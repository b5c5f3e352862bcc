// The GPU backend on AMD's runtime.

import type { Backend, BackendOptions } from "../contract.js";
import { createGpuBackend } from "./backend.js";
import { type UnavailableDriver, isUnavailableDriver } from "./drivers/shared/driver-library.js";
import { detectHip } from "./drivers/hip/detect.js";

/** Creates the `hip` backend, or returns why it cannot run: `auto` then tries the next backend. */
export function createHipBackend(
  backendOptions: BackendOptions,
  openOracle?: () => Promise<Backend>,
): Backend | UnavailableDriver {
  const found = detectHip();
  return isUnavailableDriver(found) ? found : createGpuBackend({ ...found, name: "hip", backendOptions, openOracle });
}
