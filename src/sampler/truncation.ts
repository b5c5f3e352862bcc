// The truncating stages: top-k, locally typical, top-p (nucleus), min-p. Each takes the candidates that the stage
// before it left, renormalises them, and never leaves fewer than `minKeep`.

import type { Candidates } from "./candidates.js";

/** Keeps the `topK` most likely tokens. */
export function keepTopK(candidates: Candidates, topK: number, minKeep: number): void {
  if (topK > 0) candidates.keepBest(Math.max(topK, minKeep));
}

/** Keeps the smallest set of most likely tokens whose probabilities reach `topP`. */
export function keepTopP(candidates: Candidates, topP: number, minKeep: number): void {
  if (topP >= 1 || candidates.length <= minKeep) return;
  const total = candidates.weigh(1);
  const needed = topP * total;
  // Tokens below an equal share of the remaining probability cannot make it up together, so the nucleus ends before
  // them. Halved to allow for rounding.
  candidates.keepFrom(candidates.highest() + Math.log(((1 - topP) * total) / candidates.length / 2), minKeep);
  let reached = 0;
  let kept = 0;
  while (kept < candidates.length) {
    reached += candidates.weights[candidates.rank(kept)];
    kept += 1;
    if (reached >= needed && kept >= minKeep) break;
  }
  candidates.keepBest(kept);
}

/** Keeps tokens at least `minP` times as likely as the most likely one. */
export function keepMinP(candidates: Candidates, minP: number, minKeep: number): void {
  if (minP <= 0 || candidates.length <= minKeep) return;
  const floor = candidates.highest() + Math.log(minP);
  if (candidates.keepFrom(floor, minKeep)) return;
  let kept = 1;
  while (kept < candidates.length && (kept < minKeep || candidates.logits[candidates.rank(kept)] >= floor)) kept += 1;
  candidates.keepBest(kept);
}

/** Keeps the tokens whose surprise is closest to the expected surprise, until their probabilities reach `typicalP`. */
export function keepTypical(candidates: Candidates, typicalP: number, minKeep: number, scratch: Candidates): void {
  if (typicalP >= 1 || candidates.length <= minKeep) return;
  const total = candidates.weigh(1);
  const highest = candidates.highest();
  // -ln p of a token is `logTotal` minus its logit's distance from the highest, finite even if p underflows.
  const logTotal = Math.log(total);
  let entropy = 0;
  for (let index = candidates.start; index < candidates.end; index++) {
    entropy += (candidates.weights[index] / total) * (logTotal + highest - candidates.logits[index]);
  }
  scratch.clear(candidates.length);
  for (let index = candidates.start; index < candidates.end; index++) {
    const surprise = logTotal + highest - candidates.logits[index];
    scratch.add(candidates.ids[index], -Math.abs(surprise - entropy), candidates.logits[index]);
  }
  let reached = 0;
  let kept = 0;
  while (kept < scratch.length) {
    reached += Math.exp(scratch.weights[scratch.rank(kept)] - highest);
    kept += 1;
    if (reached >= typicalP * total && kept >= minKeep) break;
  }
  candidates.clear(kept);
  for (let rank = 0; rank < kept; rank++) {
    const index = scratch.rank(rank);
    candidates.add(scratch.ids[index], scratch.weights[index], 0);
  }
}
