// Whether the launches of a network's experts compute its shared expert too: as further slots, as wide as an expert each.

import type { ExpertNetwork } from "../../../graph/expert-network.js";
import type { MatmulOperation } from "../../../graph/operation.js";
import type { GpuLoweringOptions } from "./context.js";
import { expertSumBytes } from "./expert-sum-shape.js";
import { isPlain } from "./matmul-selection.js";

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
