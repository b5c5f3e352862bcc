// Whether results are verified before they are used: captured graphs against individual launches and matmuls of the BLAS
// library against our own, if they are HIP's, which have been wrong on some cards and releases, while CUDA's have not; and
// our own kernels against a CPU on HIP, whose compilers and cards no test of ours has seen.

import type { DriverKind } from "./driver.js";

/** `on`, `off`, or `driver` for graphs and BLAS matmuls alone. */
const CHECKS_VARIABLE = "ROCMFORGE_GPU_CHECKS";

/** The kernel file that compares results. */
export const CHECK_FILE = "rows/check";

/** Whether graphs and BLAS matmuls of this driver are verified: by default for HIP only. */
export function isChecked(kind: DriverKind, environment: NodeJS.ProcessEnv = process.env): boolean {
  const asked = environment[CHECKS_VARIABLE]?.trim().toLowerCase();
  return kind === "hip" ? asked !== "off" : asked === "on";
}

/** Whether kernels are compared with a CPU before their first use: by default for HIP only. */
export function areKernelsChecked(kind: DriverKind, environment: NodeJS.ProcessEnv = process.env): boolean {
  const asked = environment[CHECKS_VARIABLE]?.trim().toLowerCase();
  return kind === "hip" ? asked !== "off" && asked !== "driver" : asked === "on";
}
