// The one place where rope angles are computed, so that every backend turns by the same cosines and sines. The angle is
// multiplied up from pair to pair in f32, as llama.cpp does it: where attention is sharp, models feel the rounding.

import type { RopeTable } from "./program.js";

/** Fills one cosine and one sine per pair, both times the table's magnitude. */
export function ropeAngles(
  { ratio, stretches, magnitude }: RopeTable,
  factors: Float32Array | undefined,
  position: number,
  cosines: Float64Array,
  sines: Float64Array,
): void {
  let turned = position;
  for (let pair = 0; pair < stretches.length; pair++) {
    const angle = Math.fround(turned / (factors?.[pair] ?? 1)) * stretches[pair];
    cosines[pair] = Math.cos(angle) * magnitude;
    sines[pair] = Math.sin(angle) * magnitude;
    turned = Math.fround(turned * ratio);
  }
}
