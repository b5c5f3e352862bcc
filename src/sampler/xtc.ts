// XTC ("exclude top choices"): with a given probability, removes every token above a threshold except the least likely
// of them. Each run uses one random number, whatever it does, so that a seed's later draws do not depend on the
// candidates.

import type { Candidates } from "./candidates.js";
import type { RandomSource } from "./rng.js";

/** Removes the top choices with probability `xtcProbability`. */
export function excludeTopChoices(
  candidates: Candidates,
  options: { readonly xtcProbability: number; readonly xtcThreshold: number; readonly minKeep: number },
  random: RandomSource,
): void {
  if (options.xtcProbability <= 0) return;
  if (random.next() >= options.xtcProbability) return;
  const needed = options.xtcThreshold * candidates.weigh(1);
  let likely = 0;
  while (likely < candidates.length && candidates.weights[candidates.rank(likely)] >= needed) likely += 1;
  const dropped = likely - 1;
  if (dropped > 0 && candidates.length - dropped >= options.minKeep) candidates.dropBest(dropped);
}
