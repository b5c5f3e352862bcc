// XTC ("exclude top choices"): with a given probability, removes every token above a threshold except the least likely
// of them. The sampler decides with one random number per token, whatever comes of it, so that a seed's later draws do
// not depend on the candidates.

import type { Candidates } from "./candidates.js";

/** Removes the top choices. */
export function excludeTopChoices(candidates: Candidates, threshold: number, minKeep: number): void {
  const needed = threshold * candidates.weigh(1);
  let likely = 0;
  while (likely < candidates.length && candidates.weights[candidates.rank(likely)] >= needed) likely += 1;
  const dropped = likely - 1;
  if (dropped > 0 && candidates.length - dropped >= minKeep) candidates.dropBest(dropped);
}
