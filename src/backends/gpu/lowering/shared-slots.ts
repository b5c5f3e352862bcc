// Whether the launches of a network's experts compute its shared expert too: as further slots, as wide as an expert each in
// small batches, or as one more matrix of the grouped matmuls of larger ones.

import type { ExpertNetwork } from "../../../graph/expert-network.js";
import type { MatmulOperation } from "../../../graph/operation.js";
import type { ProgramLimits } from "../../contract.js";
import type { GpuLoweringOptions } from "./context.js";
import { expertSumBytes } from "./expert-sum-shape.js";
import type { MemoryPlace } from "./launch.js";
import { isPlain, MIN_BLAS_BATCH } from "./matmul-selection.js";
import type { Scratch } from "./scratch.js";

const FLOAT_BYTES = 4;

/** Wider shared experts are launches of their own. */
const MAX_SHARED_SLOTS = 8;

/** Slots that the shared expert of a network takes in the launches of its experts; 0 if it is apart, or if there is none. */
export function sharedSlots(options: Pick<GpuLoweringOptions, "weights">, network: ExpertNetwork): number {
  const { shared, gate, down, activation, route } = network;
  if (shared === undefined || shared.activation.activation !== activation.activation) return 0;
  const isBare = ({ weight, bias, scale }: MatmulOperation): boolean =>
    bias === undefined && scale === undefined && !isPlain(options.weights[weight]);
  if (![shared.gate, shared.up, shared.down].every(isBare)) return 0;
  const [width] = options.weights[shared.down.weight].shape;
  const slots = width / gate.outputs;
  if (!Number.isInteger(slots) || slots > MAX_SHARED_SLOTS) return 0;
  const [slotWidth] = options.weights[down.weight].shape;
  return expertSumBytes(route.used, slots, slotWidth) === undefined ? 0 : slots;
}

/** What a shared expert leaves if it is one more matrix of grouped matmuls, in batches below the BLAS library's. */
export interface SharedExpertRegion {
  readonly activation: MemoryPlace;
  readonly out: MemoryPlace;
  /** A column: what σ makes its weight of, in batches of any size. */
  readonly weight: MemoryPlace;
}

/** Whether the launch of a network's router computes the shared expert's weight too: a row like those of the router. */
export function isRouterRow(
  { weights }: Pick<GpuLoweringOptions, "weights">,
  { router, shared }: Pick<ExpertNetwork, "router" | "shared">,
): boolean {
  const weight = shared?.weight;
  if (router === undefined || weight === undefined) return false;
  const isBare = weight.bias === undefined && weight.scale === undefined;
  const [own, others] = [weights[weight.weight], weights[router.weight]];
  return isBare && isPlain(own) && own.layout.id === others.layout.id && own.shape[0] === others.shape[0];
}

/** Memory for the widest shared expert. */
export function reserveSharedExpert(
  scratch: Scratch,
  networks: readonly ExpertNetwork[],
  { maxTokens, maxOutputs }: Pick<ProgramLimits, "maxTokens" | "maxOutputs">,
): SharedExpertRegion {
  const tokens = Math.min(Math.max(maxTokens, maxOutputs), MIN_BLAS_BATCH - 1);
  const reserve = (widthOf: (network: ExpertNetwork) => number): MemoryPlace => {
    const widths = networks.map((network) => (network.shared === undefined ? 0 : widthOf(network)));
    return scratch.reserve(Math.max(0, ...widths) * tokens * FLOAT_BYTES);
  };
  const isWeighed = networks.some(({ shared }) => shared?.weight !== undefined);
  return {
    activation: reserve(({ gate }) => gate.outputs),
    out: reserve(({ down }) => down.outputs),
    weight: scratch.reserve(isWeighed ? Math.max(maxTokens, maxOutputs) * FLOAT_BYTES : 0),
  };
}
