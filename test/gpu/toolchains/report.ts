// What the tests tell the script that runs them: one JSON object a line, for its closing table.

import { appendFileSync } from "node:fs";
import type { CompiledModule } from "./compiled-module.js";
import { moduleName } from "./kernel-modules.js";

/** The file that the script reads; unset when vitest is run by hand. */
const REPORT_VARIABLE = "ROCMFORGE_TOOLCHAINS_REPORT";

export interface SpillingKernel {
  readonly kernel: string;
  readonly module: string;
  readonly spilledBytes: number;
  readonly stackBytes: number;
  readonly vectorRegisters: number;
}

export type ReportLine =
  | { readonly toolchain: string; readonly skipped: string }
  | {
      readonly toolchain: string;
      readonly target: string;
      readonly file: string;
      /** Compiled now, remembered, and all that the backend may ask for. */
      readonly fresh: number;
      readonly kept: number;
      readonly possible: number;
      readonly failures: number;
      readonly mostRegisters: number;
      readonly spilling: readonly SpillingKernel[];
    };

export function report(line: ReportLine): void {
  const path = process.env[REPORT_VARIABLE];
  if (path !== undefined && path !== "") appendFileSync(path, `${JSON.stringify(line)}\n`);
}

/** Kernels with memory of their own off the chip, the worst first. */
export function spillingKernels(compiled: readonly CompiledModule[]): readonly SpillingKernel[] {
  return compiled
    .flatMap(({ module, kernels }) =>
      kernels
        .filter(({ stackBytes }) => stackBytes > 0)
        .map(({ name, spilledBytes, stackBytes, vectorRegisters }) => ({
          kernel: name,
          module: moduleName(module),
          spilledBytes,
          stackBytes,
          vectorRegisters,
        })),
    )
    .toSorted((left, right) => right.stackBytes - left.stackBytes);
}
