// The CUDA driver and NVRTC, as the backend needs them, or why it cannot run.

import { type UnavailableDriver, isUnavailableDriver } from "../shared/driver-library.js";
import type { NativeCompiler } from "../shared/compiler.js";
import { findCudaCompiler } from "./compiler.js";
import { findCudaDriver, type CudaDriver } from "./driver.js";

/** A CUDA driver that has started, with a run-time compiler that matches it. */
export interface DetectedCuda {
  readonly driver: CudaDriver;
  readonly compiler: NativeCompiler;
}

/** Finds the CUDA driver and NVRTC; otherwise returns why the `cuda` backend is unavailable. */
export function detectCuda(): DetectedCuda | UnavailableDriver {
  const driver = findCudaDriver();
  if (isUnavailableDriver(driver)) return driver;
  const compiler = findCudaCompiler(driver);
  return isUnavailableDriver(compiler) ? compiler : { driver, compiler };
}
