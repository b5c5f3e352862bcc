// A network of experts for batches that are neither small nor the BLAS library's: one norm for the router, the experts and the
// shared expert; gate and up of all of them; their last matmul; and the sum over slots with the shared expert and the
// residual. The shared expert is one more matrix of the grouped matmuls, so that it has no launches of its own. Steps with few
// slots an expert take dot products over sorted slots, the others the matrix units.

import type { ExpertNetwork, SharedExpert } from "../../../graph/expert-network.js";
import type { Group, WeightedRmsNorm } from "../../../graph/fusion.js";
import type { GroupedMatmulOperation, MatmulOperation } from "../../../graph/operation.js";
import { classOf, type LoweringContext, type LoweringSize, rowsOf, type ValuePlace } from "./context.js";
import { hasFewSlots, matrixCount } from "./expert-tiles.js";
import { byWidth, canBeGated, type GroupedGemm, groupedGemmLaunch, isRouted, usesGroupedGemm } from "./grouped-gemm.js";
import { prepareGroupedInput } from "./grouped-input.js";
import { type MatmulInput, prepareNormed } from "./inputs.js";
import { type LaunchSize, type LaunchSpec, onlyIf } from "./launch.js";
import type { MatmulLowering, TargetedMatmul } from "./matmul-groups.js";
import { isPlain } from "./matmul-selection.js";
import { lowerNetworkSum } from "./network-sum.js";
import { networkInput } from "./regions.js";
import { routeAndOrder } from "./route-order.js";
import { isRouterRow } from "./shared-slots.js";
import { fitsSortedGemv, sortedGemvLaunch } from "./sorted-gemv.js";
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
  if (shared?.weight !== undefined && !isRouterRow(options, network)) return false;
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

/** The launches of such a network, and the input of `next`, the group after it, if the last of them leaves that. */
export function lowerGemmNetwork(
  context: LoweringContext,
  matmuls: MatmulLowering,
  network: NormedNetwork,
  next: Group | undefined,
): { readonly items: readonly StepItem[]; readonly handed: MatmulInput | undefined } {
  const { norm, router, route, gate, shared } = network;
  if (!isRouted(gate)) throw new TypeError("a router chooses these experts");
  const floats = context.matrix(norm.out);
  const normed = prepareNormed(context, norm, "half", floats);
  const parts = expertParts(context, network);
  const isSorted = sortedSteps(context, network, matmuls.size);
  const isOther = (size: LaunchSize): boolean => isSorted?.(size) !== true;
  const sorted = isSorted === undefined ? undefined : sortedLaunches(context, network, parts, isSorted);
  const sum = lowerNetworkSum(context, matmuls, network, parts.last.shared?.out, next);
  const items = [
    onlyIf(isOther, normed.launch),
    ...(sorted === undefined ? [] : [sorted.norm]),
    ...matmuls.projectNormed(router, normed.input, floats, weighing(context, shared)),
    ...routeAndOrder(context, route, gate, isSorted),
    ...(sorted?.matmuls ?? []),
    ...gemmLaunches(context, network, parts, normed.input).map((launch) => onlyIf(isOther, launch)),
    ...sum.launches,
  ];
  return { items, handed: sum.handed };
}

/** The matmul of the shared expert's weight and where its result goes, if there is one. */
function weighing(context: LoweringContext, shared: SharedExpert | undefined): TargetedMatmul | undefined {
  const operation = shared?.weight;
  if (operation === undefined) return undefined;
  const { rows } = context.values[operation.out];
  return { operation, out: { place: context.regions.sharedExpert.weight, stride: 1, width: 1, rows } };
}

/** Gate and up, and the last matmul, with the shared expert's. */
interface ExpertParts {
  readonly gated: GroupedGemm;
  readonly last: GroupedGemm;
}

function expertParts(
  context: LoweringContext,
  { gate, up, activation, down, shared, out }: NormedNetwork,
): ExpertParts {
  const own = (place: SharedPlace, width: number): ValuePlace => ({
    place: context.regions.sharedExpert[place],
    stride: width,
    width,
    rows: context.values[out].rows,
  });
  const gated: GroupedGemm = {
    matmuls: [gate, up],
    gated: activation.activation,
    out: context.matrix(activation.out),
  };
  const last: GroupedGemm = { matmuls: [down], out: context.matrix(down.out) };
  if (shared === undefined) return { gated, last };
  const [first, result] = [own("activation", gate.outputs), own("out", down.outputs)];
  return {
    gated: { ...gated, shared: { weights: [shared.gate.weight, shared.up.weight], out: first } },
    last: { ...last, shared: { weights: [shared.down.weight], out: result } },
  };
}

/** On the matrix units. */
function gemmLaunches(
  context: LoweringContext,
  { gate, down }: NormedNetwork,
  { gated, last }: ExpertParts,
  normed: ReturnType<typeof prepareNormed<"half">>["input"],
): readonly LaunchSpec[] {
  return [
    ...byWidth(context, gate, (wide, isNeeded) => {
      if (!wide) return [groupedGemmLaunch(context, { ...normed, lowHalves: 0 }, gated, isNeeded)];
      const { launches, input } = prepareGroupedInput(context, gate, wide, isNeeded);
      return [...launches, groupedGemmLaunch(context, input, gated, isNeeded)];
    }),
    ...byWidth(context, down, (wide, isNeeded) => {
      const { launches, input } = prepareGroupedInput(context, down, wide, isNeeded, gated.shared?.out);
      return [...launches, groupedGemmLaunch(context, input, last, isNeeded)];
    }),
  ];
}

/** Which steps of this class take dot products over sorted slots; undefined: none does. */
function sortedSteps(
  { options, values }: LoweringContext,
  { gate, down, router, out }: NormedNetwork,
  size: LoweringSize,
): ((step: LaunchSize) => boolean) | undefined {
  const { rows } = values[out];
  const { weights } = options;
  const fits = [gate, down].every(({ weight }) => fitsSortedGemv(weights[weight].shape[0]));
  const batch = classOf(size, rows);
  if ((batch !== "medium" && batch !== "large") || !fits || gate.outputs % 32 !== 0) return undefined;
  // The router would want f16 rows.
  if (!isPlain(weights[router.weight])) return undefined;
  const experts = matrixCount(gate, weights[gate.weight]);
  return (step) => hasFewSlots(rowsOf(step, rows), gate.slots, experts);
}

function sortedLaunches(
  context: LoweringContext,
  network: NormedNetwork,
  { gated, last }: ExpertParts,
  isNeeded: (step: LaunchSize) => boolean,
): { readonly norm: LaunchSpec; readonly matmuls: readonly LaunchSpec[] } {
  const { norm, gate, up, activation, down } = network;
  if (!isRouted(gate) || !isRouted(down)) throw new TypeError("a router chooses these experts");
  const normed = prepareNormed(context, norm, "quantized", context.matrix(norm.out));
  const quantized = networkInput(context.options, network, context.regions.handedInput);
  return {
    norm: onlyIf(isNeeded, normed.launch),
    matmuls: [
      sortedGemvLaunch(
        context,
        {
          matmuls: [gate, up],
          input: normed.input,
          gated: { activation: activation.activation, quantized },
          out: gated.out,
          shared: gated.shared,
        },
        isNeeded,
      ),
      sortedGemvLaunch(context, { matmuls: [down], input: quantized, out: last.out, shared: last.shared }, isNeeded),
    ],
  };
}

type SharedPlace = keyof LoweringContext["regions"]["sharedExpert"];
