// A norm of heads whose result is gated: what follows a gated delta net. Like all groups it carries its plain operations
// (fusion.ts).

import type { GluOperation, Operation, RmsNormOperation, ValueId } from "./operation.js";
import type { Program } from "./program.js";

/** activation(gate) × the norm of each group of columns. */
export interface GatedNormGroup {
  readonly form: "gated-norm";
  readonly norm: RmsNormOperation;
  readonly activation: GluOperation;
  readonly parts: readonly Operation[];
}

/** Columns of a group that the lanes of one wave hold, a quad each. */
const GROUP_WIDTHS: ReadonlySet<number> = new Set([4, 8, 16, 32, 64, 128]);

/** The norm and the gate that operations begin with, if they do. */
export function matchGatedNorm(
  [norm, activation]: readonly Operation[],
  { values }: Pick<Program, "values">,
  isOnlyReadBy: (id: ValueId, readers: readonly Operation[]) => boolean,
): GatedNormGroup | undefined {
  if (norm?.kind !== "rms-norm" || activation?.kind !== "glu") return undefined;
  const { up, gate } = activation;
  if (up !== norm.out || gate === norm.out || values[gate].width !== values[up].width) return undefined;
  const isOfHeads = GROUP_WIDTHS.has(norm.groupWidth) && norm.rowWeights !== true;
  if (!isOfHeads || !isOnlyReadBy(norm.out, [activation])) return undefined;
  return { form: "gated-norm", norm, activation, parts: [norm, activation] };
}
