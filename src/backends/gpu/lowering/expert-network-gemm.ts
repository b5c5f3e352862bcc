// A network of experts for batches that are neither small nor the BLAS library's: one norm for the router, the experts and the
// shared expert; gate and up of all of them; their last matmul; and the sum over slots with the shared expert and the
// residual. The shared expert is one more matrix of the grouped matmuls, so that it has no launches of its own.

import type { ExpertNetwork, SharedExpert } from "../../../graph/expert-network.js";
import type { WeightedRmsNorm } from "../../../graph/fusion.js";
import type { GroupedMatmulOperation, MatmulOperation } from "../../../graph/operation.js";
import { classOf, type LoweringContext, type LoweringSize, type ValuePlace } from "./context.js";
import { expertOrderLaunch } from "./expert-order.js";
import { lowerRoute, type SlotSum, slotSumLaunch } from "./experts.js";
import { byWidth, canBeGated, type GroupedGemm, groupedGemmLaunch, isRouted, usesGroupedGemm } from "./grouped-gemm.js";
import { prepareGroupedInput } from "./grouped-input.js";
import { prepareNormedHalves } from "./inputs.js";
import type { LaunchSpec } from "./launch.js";
import type { MatmulLowering } from "./matmul-groups.js";
import { isPlain } from "./matmul-selection.js";
import { addRows } from "./rows.js";
import type { StepItem } from "./step-item.js";

/** A network whose norm and router are part of the run. */
type NormedNetwork = ExpertNetwork & { readonly norm: WeightedRmsNorm; readonly router: MatmulOperation };

/** Whether steps of this size compute the network this way. */
export function isGemmNetwork(
  context: LoweringContext,
  network: ExpertNetwork,
  size: LoweringSize,
): network is NormedNetwork {
  const { options, values } = context;
  const { norm, router, gate, up, down, shared } = network;
  const batch = classOf(size, values[network.out].rows);
  if (options.deterministic || batch === "small" || batch === "huge") return false;
  if (norm === undefined || router === undefined) return false;
  const matmuls = [gate, up, down];
  if (matmuls.some(({ weight }) => isPlain(options.weights[weight]))) return false;
  if (!matmuls.every((operation) => usesGroupedGemm(context, operation, size)) || !canBeGated(context, gate, up))
    return false;
  return shared === undefined || isOneMoreExpert(context, network, shared);
}

/** Whether the shared expert's matrices are like those of the experts, and bare. */
function isOneMoreExpert(
  context: LoweringContext,
  { gate, up, down, activation }: ExpertNetwork,
  shared: SharedExpert,
): boolean {
  const { weights } = context.options;
  if (shared.activation.activation !== activation.activation) return false;
  const isBare = ({ bias, scale }: Pick<MatmulOperation, "bias" | "scale">): boolean =>
    bias === undefined && scale === undefined;
  const pairs: readonly (readonly [GroupedMatmulOperation, MatmulOperation])[] = [
    [gate, shared.gate],
    [up, shared.up],
    [down, shared.down],
  ];
  return pairs.every(([expert, own]) => {
    const [width, outputs] = weights[own.weight].shape;
    return (
      isBare(expert) &&
      isBare(own) &&
      context.typeOf(expert.weight) === context.typeOf(own.weight) &&
      weights[expert.weight].shape[0] === width &&
      expert.outputs === outputs
    );
  });
}

/** The launches of such a network. */
export function lowerGemmNetwork(
  context: LoweringContext,
  matmuls: MatmulLowering,
  network: NormedNetwork,
): readonly StepItem[] {
  const { norm, router, route, gate, up, activation, down, shared } = network;
  if (!isRouted(gate)) throw new TypeError("a router chooses these experts");
  const { regions } = context;
  const normed = prepareNormedHalves(context, norm, context.matrix(norm.out));
  const own = (place: SharedPlace, width: number): ValuePlace => ({
    place: regions.sharedExpert[place],
    stride: width,
    width,
    rows: context.values[network.out].rows,
  });
  const sharedActivation = shared === undefined ? undefined : own("activation", gate.outputs);
  const sharedOut = shared === undefined ? undefined : own("out", down.outputs);
  const gated: GroupedGemm = {
    matmuls: [gate, up],
    gated: activation.activation,
    out: context.matrix(activation.out),
    ...(shared === undefined || sharedActivation === undefined
      ? {}
      : { shared: { weights: [shared.gate.weight, shared.up.weight], out: sharedActivation } }),
  };
  const last: GroupedGemm = {
    matmuls: [down],
    out: context.matrix(down.out),
    ...(shared === undefined || sharedOut === undefined
      ? {}
      : { shared: { weights: [shared.down.weight], out: sharedOut } }),
  };
  return [
    normed.launch,
    ...matmuls.projectNormed(router, normed.input, context.matrix(norm.out)),
    lowerRoute(context, route),
    expertOrderLaunch(context, gate),
    ...byWidth(context, gate, (wide, isNeeded) => {
      if (!wide) return [groupedGemmLaunch(context, { ...normed.input, lowHalves: 0 }, gated, isNeeded)];
      const { launches, input } = prepareGroupedInput(context, gate, wide, isNeeded);
      return [...launches, groupedGemmLaunch(context, input, gated, isNeeded)];
    }),
    ...byWidth(context, down, (wide, isNeeded) => {
      const { launches, input } = prepareGroupedInput(context, down, wide, isNeeded, sharedActivation);
      return [...launches, groupedGemmLaunch(context, input, last, isNeeded)];
    }),
    ...lowerSum(context, network, sharedOut),
  ];
}

type SharedPlace = keyof LoweringContext["regions"]["sharedExpert"];

/** The sum goes right to the result, unless that lies where the slots are. */
function lowerSum(
  context: LoweringContext,
  { sum, down, residual, out: result }: ExpertNetwork,
  shared: ValuePlace | undefined,
): readonly LaunchSpec[] {
  const { slotOf } = context.options.fused.memory;
  const out = context.matrix(result);
  const added = residual === undefined ? undefined : context.matrix(residual);
  const others: Omit<SlotSum, "out"> = shared === undefined ? {} : { shared };
  if (added === undefined || slotOf[result] !== slotOf[down.out])
    return [slotSumLaunch(context, sum, { out, ...others, ...(added === undefined ? {} : { residual: added }) })];
  const summed = context.matrix(sum.out);
  return [slotSumLaunch(context, sum, { out: summed, ...others }), addRows(context, summed, added, out)];
}
