// Chooses among the instruction sets that the addon has and this machine can run: the best, or the one that
// ROCMFORGE_CPU_ISA names.

import { refuseValue } from "../../options.js";

/** Environment variable that forces an instruction set. */
export const ISA_VARIABLE = "ROCMFORGE_CPU_ISA";

/**
 * Chooses an instruction set: `isas` are sorted best first; `wanted` is the value of ROCMFORGE_CPU_ISA, where an empty
 * string means none.
 */
export function chooseIsa(isas: readonly string[], wanted: string | undefined): string {
  if (wanted === undefined || wanted === "") return isas[0];
  const name = wanted.trim().toLowerCase();
  if (isas.includes(name)) return name;
  return refuseValue(
    "cpu",
    ISA_VARIABLE,
    `one that this machine can run (${isas.join(", ")}) or nothing for the best`,
    wanted,
  );
}
