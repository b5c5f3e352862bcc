// Gate, up and activation of experts that one launch of the grouped GEMM computes: three neighbouring groups of the program,
// of which the first lowers to the launch and the others to nothing.

import type { GluOperation, GroupedMatmulOperation, Operation } from "../../../graph/operation.js";
import type { LoweringContext, LoweringSize } from "./context.js";
import { canBeGated, usesGroupedGemm } from "./grouped-gemm.js";

/** Operations that are computed as one. */
export interface GatedExperts {
  readonly gate: GroupedMatmulOperation;
  readonly up: GroupedMatmulOperation;
  readonly activation: GluOperation;
}

/** Groups of gate, up and activation. */
const GROUPS = 3;

/** The experts whose gate and up begin with this group, if one launch computes them in steps of this size. */
export function gatedExpertsAt(
  context: LoweringContext,
  groupIndex: number,
  size: LoweringSize,
): GatedExperts | undefined {
  const [first, second, activation] = Array.from({ length: GROUPS }, (_, index) => single(context, groupIndex + index));
  if (first?.kind !== "grouped-matmul" || second?.kind !== "grouped-matmul" || activation?.kind !== "glu")
    return undefined;
  const gate = [first, second].find(({ out }) => out === activation.gate);
  const up = [first, second].find(({ out }) => out === activation.up);
  if (gate === undefined || up === undefined || gate === up || gate.outputs !== up.outputs) return undefined;
  const isInside = [gate, up].every(({ out }) => context.isOnlyReadBy(out, groupIndex + GROUPS - 1));
  const areGemms = [gate, up].every((operation) => usesGroupedGemm(context, operation, size));
  return isInside && areGemms && canBeGated(context, gate, up) ? { gate, up, activation } : undefined;
}

/** Whether a group before this one computes it. */
export function isGatedBefore(context: LoweringContext, groupIndex: number, size: LoweringSize): boolean {
  return Array.from({ length: GROUPS - 1 }, (_, index) => groupIndex - 1 - index).some(
    (before) => gatedExpertsAt(context, before, size) !== undefined,
  );
}

function single(context: LoweringContext, groupIndex: number): Operation | undefined {
  const group = groupIndex < 0 ? undefined : context.options.fused.groups.at(groupIndex);
  return group?.form === "single" ? group.operation : undefined;
}
