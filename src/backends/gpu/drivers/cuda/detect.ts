// The CUDA driver and NVRTC together, as the backend needs them, or what stands in its way.

import { type DriverObstacle, isObstacle } from "../shared/driver-library.js";
import type { NativeCompiler } from "../shared/compiler.js";
import { findCudaCompiler } from "./compiler.js";
import { findCudaDriver, type CudaDriver } from "./driver.js";

export interface FoundCuda {
  readonly driver: CudaDriver;
  readonly compiler: NativeCompiler;
}

export function findCuda(): FoundCuda | DriverObstacle {
  const driver = findCudaDriver();
  if (isObstacle(driver)) return driver;
  const compiler = findCudaCompiler(driver);
  return isObstacle(compiler) ? compiler : { driver, compiler };
}
