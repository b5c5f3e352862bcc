// The last stage: temperature, then one random choice. Tokens are walked from the most likely down, so the choice
// depends on the set and the random number, not on the order the candidates came in.

import type { Candidates } from "./candidates.js";
import type { RandomSource } from "./rng.js";

/** The index of the chosen candidate; `weights` then hold what it was chosen by. */
export function drawAt(candidates: Candidates, temperature: number, random: RandomSource): number {
  return pick(candidates, candidates.weigh(temperature), random.next());
}

/** The index at which the running sum of weights passes `point * total`. */
export function pick(candidates: Candidates, total: number, point: number): number {
  const target = point * total;
  let reached = 0;
  let last = candidates.rank(0);
  for (let rank = 0; rank < candidates.length; rank++) {
    const index = candidates.rank(rank);
    // Weights fall with the rank, so from here on there is only rounding left to fall through.
    if (candidates.weights[index] === 0) break;
    last = index;
    reached += candidates.weights[index];
    if (reached > target) break;
  }
  return last;
}
