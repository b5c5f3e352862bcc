// Whether what a driver makes is checked before it is used: captured graphs against launches one by one, matmuls of its
// BLAS library against our own. HIP's have been wrong on some cards and releases; CUDA's have not.

import type { DriverKind } from "./driver.js";

/** `on` or `off`. */
const CHECKS_VARIABLE = "ROCMFORGE_GPU_CHECKS";

/** The kernel file that compares results. */
export const CHECK_FILE = "rows/check";

export function isChecked(kind: DriverKind, environment: NodeJS.ProcessEnv = process.env): boolean {
  const asked = environment[CHECKS_VARIABLE]?.trim().toLowerCase();
  return kind === "hip" ? asked !== "off" : asked === "on";
}
