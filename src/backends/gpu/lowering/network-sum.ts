// The end of a network of experts in larger batches: the sum over slots with the shared expert and the residual, and the norm
// of the group after it in the same launch, if that group's matmuls take f16 rows.

import type { ExpertNetwork } from "../../../graph/expert-network.js";
import type { Group, WeightedRmsNorm } from "../../../graph/fusion.js";
import type { LoweringContext, ValuePlace } from "./context.js";
import { type SlotSum, slotSumLaunch, sumArguments } from "./experts.js";
import type { MatmulInput } from "./inputs.js";
import type { LaunchSpec } from "./launch.js";
import type { MatmulLowering } from "./matmul-groups.js";
import { addRows, heldQuads, rowGrid } from "./rows.js";

/** The launches, and the input of the next group, if they leave it. */
export interface NetworkSum {
  readonly launches: readonly LaunchSpec[];
  readonly handed: Extract<MatmulInput, { form: "half" }> | undefined;
}

/** The sum goes right to the result, unless that lies where the slots are. `next` is the group after the network. */
export function lowerNetworkSum(
  context: LoweringContext,
  matmuls: MatmulLowering,
  { sum, down, residual, out: result, shared: sharedExpert }: ExpertNetwork,
  shared: ValuePlace | undefined,
  next: Group | undefined,
): NetworkSum {
  const { slotOf } = context.options.fused.memory;
  const out = context.matrix(result);
  const added = residual === undefined ? undefined : context.matrix(residual);
  const sharedWeight = sharedExpert?.weight === undefined ? undefined : context.regions.sharedExpert.weight;
  const others: Omit<SlotSum, "out"> = shared === undefined ? {} : { shared, sharedWeight };
  if (added !== undefined && slotOf[result] === slotOf[down.out]) {
    const summed = context.matrix(sum.out);
    const launches = [slotSumLaunch(context, sum, { out: summed, ...others }), addRows(context, summed, added, out)];
    return { launches, handed: undefined };
  }
  const wanted: SlotSum = { out, ...others, ...(added === undefined ? {} : { residual: added }) };
  const norm = matmuls.wantedNorm(next, result);
  if (norm === undefined) return { launches: [slotSumLaunch(context, sum, wanted)], handed: undefined };
  const handed = matmuls.handedPlace("half", out);
  if (handed.form !== "half") throw new TypeError("a place of another form than was asked for");
  return { launches: [sumNormLaunch(context, sum, wanted, norm, handed)], handed };
}

function sumNormLaunch(
  context: LoweringContext,
  sum: ExpertNetwork["sum"],
  wanted: SlotSum,
  { weight, epsilon }: WeightedRmsNorm,
  { halves, rowScales, stride }: Extract<MatmulInput, { form: "half" }>,
): LaunchSpec {
  return {
    label: "sum of slots and norm",
    file: "rows/slot-sum",
    variants: [{ kernel: "sum_norm_half", defines: { HELD: heldQuads(stride), WEIGHT_TYPE: context.typeOf(weight) } }],
    arguments: {
      ...sumArguments(context, sum, wanted),
      weight: context.weight(weight),
      halves,
      row_scales: rowScales,
      half_stride: stride,
      epsilon,
    },
    grid: rowGrid(wanted.out.rows),
  };
}
