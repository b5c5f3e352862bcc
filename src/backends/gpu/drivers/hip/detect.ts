// The HIP runtime and hiprtc, as the backend needs them, or why it cannot run.

import { type UnavailableDriver, isUnavailableDriver } from "../shared/driver-library.js";
import type { NativeCompiler } from "../shared/compiler.js";
import { findHipCompiler } from "./compiler.js";
import { findHipDriver, type HipDriver } from "./driver.js";

/** A HIP runtime that has started, with its run-time compiler. */
export interface DetectedHip {
  readonly driver: HipDriver;
  readonly compiler: NativeCompiler;
}

/** Finds the HIP runtime and hiprtc; otherwise returns why the `hip` backend is unavailable. */
export function detectHip(): DetectedHip | UnavailableDriver {
  const driver = findHipDriver();
  if (isUnavailableDriver(driver)) return driver;
  const compiler = findHipCompiler(driver);
  return isUnavailableDriver(compiler) ? compiler : { driver, compiler };
}
