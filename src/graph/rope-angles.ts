// The one place that computes rope angles, so that every backend rotates by the same cosines and sines. The angle is
// multiplied from pair to pair in f32, as in llama.cpp: with sharp attention the rounding shows in the results.

import type { RopeTable } from "./program.js";

/** Fills in one cosine and one sine per pair, both multiplied by the table's magnitude. */
export function ropeAngles(
  { ratio, stretches, magnitude }: RopeTable,
  factors: Float32Array | undefined,
  position: number,
  cosines: Float64Array,
  sines: Float64Array,
): void {
  let angleSoFar = position;
  for (let pair = 0; pair < stretches.length; pair++) {
    const angle = Math.fround(angleSoFar / (factors?.[pair] ?? 1)) * stretches[pair];
    cosines[pair] = Math.cos(angle) * magnitude;
    sines[pair] = Math.sin(angle) * magnitude;
    angleSoFar = Math.fround(angleSoFar * ratio);
  }
}
