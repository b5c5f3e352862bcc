// Rope angles at plan time: plain, linearly interpolated, or YaRN (Peng et al., arXiv 2309.00071), which keeps
// fast pairs as trained, interpolates slow ones, and blends those between. Per-pair divisors that a file may carry
// (Llama 3) are applied by the rotation itself, because they are tensors and tensors load lazily.

import type { RopeTable } from "../graph/program.js";
import type { RopeScaling, RopeSpec } from "./layer.js";

/** Computes the rope table of a layer specification, with the scaling for longer contexts. */
export function ropeTable({ base, rotaryWidth, scaling, unrotatedPairs = [] }: RopeSpec): RopeTable {
  const stretches = Array.from({ length: rotaryWidth / 2 }, (_, pair) =>
    unrotatedPairs.includes(pair) ? 0 : stretch(pair, base, rotaryWidth, scaling),
  );
  // The exponent is an f32 too: over a wide head its rounding alone moves the last angles.
  return { ratio: Math.fround(base ** Math.fround(-2 / rotaryWidth)), stretches, magnitude: scaling.magnitude };
}

const BETA_FAST = 32;
const BETA_SLOW = 1;

/** 1 keeps the trained frequency, 1/factor interpolates it fully. */
function stretch(pair: number, base: number, rotaryWidth: number, scaling: RopeScaling): number {
  const interpolated = 1 / scaling.factor;
  if (scaling.kind !== "yarn") return interpolated;
  const pairAfter = (rotations: number): number =>
    (rotaryWidth * Math.log(scaling.originalContext / (rotations * 2 * Math.PI))) / (2 * Math.log(base));
  const low = Math.max(0, Math.floor(pairAfter(scaling.betaFast ?? BETA_FAST)));
  const high = Math.min(rotaryWidth - 1, Math.ceil(pairAfter(scaling.betaSlow ?? BETA_SLOW)));
  const ramp = Math.min(1, Math.max(0, (pair - low) / Math.max(0.001, high - low)));
  return interpolated * ramp + (1 - ramp);
}
