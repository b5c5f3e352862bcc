// Gate, up and activation of experts that one launch of the grouped GEMM computes: three neighbouring groups of the program,
// of which the first lowers to the launch and the others to nothing.

import type { GatedExpertsGroup } from "../../../graph/expert-fusion.js";
import type { LoweringContext, LoweringSize } from "./context.js";
import { canBeGated, usesGroupedGemm } from "./grouped-gemm.js";

/** Groups of gate, up and activation. */
const GROUPS = 3;

/** The experts whose gate and up begin with this group, if one launch computes them in steps of this size. */
export function gatedExpertsAt(
  context: LoweringContext,
  groupIndex: number,
  size: LoweringSize,
): GatedExpertsGroup | undefined {
  const found = context.options.fused.gatedExperts.get(groupIndex);
  if (found === undefined || !canBeGated(context, found.gate, found.up)) return undefined;
  return [found.gate, found.up].every((operation) => usesGroupedGemm(context, operation, size)) ? found : undefined;
}

/** Whether a group before this one computes it. */
export function isGatedBefore(context: LoweringContext, groupIndex: number, size: LoweringSize): boolean {
  return Array.from({ length: GROUPS - 1 }, (_, index) => groupIndex - 1 - index).some(
    (before) => gatedExpertsAt(context, before, size) !== undefined,
  );
}
