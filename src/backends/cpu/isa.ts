// Which of the instruction sets that the addon has and this machine can run is used: the best, or the one asked for.

import { refuseValue } from "../../options.js";

export const ISA_VARIABLE = "ROCMFORGE_CPU_ISA";

/** `isas` best first; `wanted` is the value of ROCMFORGE_CPU_ISA, where an empty one is none. */
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
