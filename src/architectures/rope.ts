// Rope frequencies at plan time: plain, linearly interpolated, or YaRN (Peng et al., arXiv 2309.00071), which keeps
// fast-turning pairs as trained, interpolates slow ones, and blends those between. Per-layer divisors that a file may
// carry (Llama 3) are applied where the rotation runs, because they are tensors and tensors load lazily.

import type { RopeTable } from "../graph/program.js";
import type { RopeParameters, RopeScaling } from "./descriptor.js";

export function ropeTable({ base, rotaryWidth, scaling }: RopeParameters): RopeTable {
  const frequencies: number[] = [];
  for (let pair = 0; pair < rotaryWidth / 2; pair++) {
    const plain = base ** ((-2 * pair) / rotaryWidth);
    frequencies.push(plain * stretch(pair, base, rotaryWidth, scaling));
  }
  return { frequencies, magnitude: magnitude(scaling) };
}

/** 1 keeps the trained frequency, 1/factor interpolates it fully. */
function stretch(pair: number, base: number, rotaryWidth: number, scaling: RopeScaling): number {
  const interpolated = 1 / scaling.factor;
  if (scaling.extrapolationFactor === 0) return interpolated;
  const pairAfter = (turns: number): number =>
    (rotaryWidth * Math.log(scaling.originalContext / (turns * 2 * Math.PI))) / (2 * Math.log(base));
  const low = Math.max(0, Math.floor(pairAfter(scaling.betaFast)));
  const high = Math.min(rotaryWidth - 1, Math.ceil(pairAfter(scaling.betaSlow)));
  const ramp = Math.min(1, Math.max(0, (pair - low) / Math.max(0.001, high - low)));
  const kept = (1 - ramp) * scaling.extrapolationFactor;
  return interpolated * (1 - kept) + kept;
}

/** YaRN sharpens attention a little as the context grows. */
function magnitude(scaling: RopeScaling): number {
  if (scaling.extrapolationFactor === 0) return scaling.attentionFactor;
  return scaling.attentionFactor * (1 + 0.1 * Math.log(scaling.factor));
}
