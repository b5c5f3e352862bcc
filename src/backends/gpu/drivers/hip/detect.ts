// The HIP runtime and hiprtc together, as the backend needs them, or what stands in its way.

import { type DriverObstacle, isObstacle } from "../shared/driver-library.js";
import type { NativeCompiler } from "../shared/compiler.js";
import { findHipCompiler } from "./compiler.js";
import { findHipDriver, type HipDriver } from "./driver.js";

export interface FoundHip {
  readonly driver: HipDriver;
  readonly compiler: NativeCompiler;
}

export function findHip(): FoundHip | DriverObstacle {
  const driver = findHipDriver();
  if (isObstacle(driver)) return driver;
  const compiler = findHipCompiler(driver);
  return isObstacle(compiler) ? compiler : { driver, compiler };
}
