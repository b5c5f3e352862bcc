// Whether the driver's results are verified before they are used: captured graphs against individual launches, matmuls
// of the BLAS library against our own. HIP's have been wrong on some cards and releases; CUDA's have not.

import type { DriverKind } from "./driver.js";

/** `on` or `off`. */
const CHECKS_VARIABLE = "ROCMFORGE_GPU_CHECKS";

/** The kernel file that compares results. */
export const CHECK_FILE = "rows/check";

/** Whether graphs and BLAS matmuls of this driver are verified: by default for HIP only. */
export function isChecked(kind: DriverKind, environment: NodeJS.ProcessEnv = process.env): boolean {
  const asked = environment[CHECKS_VARIABLE]?.trim().toLowerCase();
  return kind === "hip" ? asked !== "off" : asked === "on";
}
