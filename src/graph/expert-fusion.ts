// Operations of experts that a backend may run as one: gate, up and activation; and down, the sum of the slots and the
// residual. Like all groups they carry their plain operations (fusion.ts). Whole networks (expert-network.ts) consist of
// these two.

import type {
  AddOperation,
  GluOperation,
  GroupedMatmulOperation,
  Operation,
  SumSlotsOperation,
  ValueId,
} from "./operation.js";
import { residualOf, type ValueUses } from "./fusion-rules.js";
import type { Program } from "./program.js";

/** activation(gate) × up of the experts that were chosen. */
export interface GatedExpertsGroup {
  readonly form: "gated-experts";
  readonly gate: GroupedMatmulOperation;
  readonly up: GroupedMatmulOperation;
  readonly activation: GluOperation;
  readonly parts: readonly Operation[];
}

/** A grouped matmul whose slots are added up, and the sum to a residual if `add` follows. */
export interface ExpertsSumGroup {
  readonly form: "experts-sum";
  readonly matmul: GroupedMatmulOperation;
  readonly sum: SumSlotsOperation;
  readonly residual: { readonly value: ValueId; readonly add: AddOperation } | undefined;
  readonly parts: readonly Operation[];
}

export type ExpertGroup = GatedExpertsGroup | ExpertsSumGroup;

/** The group of experts that operations begin with, if they do. */
export function matchExperts(
  operations: readonly Operation[],
  program: Program,
  uses: ValueUses,
): ExpertGroup | undefined {
  return matchGatedExperts(operations, program, uses) ?? matchExpertsSum(operations, uses);
}

/** The value that a group leaves to others. */
export function expertGroupOutput(group: ExpertGroup): ValueId {
  if (group.form === "gated-experts") return group.activation.out;
  return group.residual?.add.out ?? group.sum.out;
}

/** Gate, up and activation, if operations begin with them. */
export function matchGatedExperts(
  [first, second, activation]: readonly Operation[],
  program: Program,
  uses: ValueUses,
): GatedExpertsGroup | undefined {
  if (first?.kind !== "grouped-matmul" || second?.kind !== "grouped-matmul" || activation?.kind !== "glu")
    return undefined;
  const pair = [first, second];
  const gate = pair.find(({ out }) => out === activation.gate);
  const up = pair.find(({ out }) => out === activation.up);
  if (gate === undefined || up === undefined || gate === up) return undefined;
  const alike = (["input", "routing", "slots", "inputStride", "outputs", "weighted"] as const).every(
    (field) => gate[field] === up[field],
  );
  if (!alike || stackOf(gate, program) !== stackOf(up, program)) return undefined;
  if (!pair.every(({ out }) => uses.isOnlyReadBy(out, [activation]))) return undefined;
  return { form: "gated-experts", gate, up, activation, parts: [first, second, activation] };
}

/** Width and number of a stack's matrices. */
function stackOf({ weight, matrixRows }: GroupedMatmulOperation, { weights }: Program): string {
  const [inputs, ...counts] = weights[weight].shape;
  return `${inputs} × ${counts.reduce((total, count) => total * count, 1) / matrixRows}`;
}

/** A grouped matmul with the sum of its slots, if operations begin with them, and the residual if it follows. */
export function matchExpertsSum(
  [matmul, sum, add]: readonly Operation[],
  uses: ValueUses,
): ExpertsSumGroup | undefined {
  if (matmul?.kind !== "grouped-matmul" || sum?.kind !== "sum-slots" || sum.input !== matmul.out) return undefined;
  if (sum.slots !== matmul.slots || !uses.isOnlyReadBy(matmul.out, [sum])) return undefined;
  const value = add?.kind === "add" ? residualOf(add, sum.out, uses) : undefined;
  if (add?.kind !== "add" || value === undefined)
    return { form: "experts-sum", matmul, sum, residual: undefined, parts: [matmul, sum] };
  return { form: "experts-sum", matmul, sum, residual: { value, add }, parts: [matmul, sum, add] };
}
