// The last stage: temperature, then one random draw. Candidates are walked from the most likely down, so the choice
// depends on the set and the random number, not on the input order; an untruncated vocabulary is walked by id, without
// ranking.

import type { Candidates } from "./candidates.js";

/**
 * Tokens this far below the best (e^-40) have less probability together, even a whole vocabulary of them, than a random
 * number can resolve.
 */
const NEGLIGIBLE_NATS = 40;

/** Draws from the whole vocabulary by a random number in [0, 1): logits by id, and their log-sum-exp if it is known. */
export function drawFromAll(
  logits: Float32Array | Float64Array,
  logSum: number | undefined,
  temperature: number,
  draw: number,
): number {
  let point = draw;
  if (temperature === 1 && logSum !== undefined) {
    const { token, reached } = walk(logits, logSum, 1, point);
    if (token !== undefined) return token;
    // A single-precision log-sum may be slightly too large; a point beyond the real sum is drawn again.
    point = (point - reached) / (1 - reached);
  }
  const highest = highestOf(logits);
  const { reached: total, last } = walk(logits, highest, temperature, Number.POSITIVE_INFINITY);
  return walk(logits, highest, temperature, point * total).token ?? last;
}

/**
 * Draws one candidate by a random number in [0, 1) and returns its index; `weights` then hold the unnormalised
 * probabilities.
 */
export function drawAt(candidates: Candidates, temperature: number, draw: number): number {
  return pick(candidates, candidates.weigh(temperature), draw);
}

/** The index at which the running sum of weights passes `point * total`. */
export function pick(candidates: Candidates, total: number, point: number): number {
  const target = point * total;
  let reached = 0;
  let last = candidates.rank(0);
  for (let rank = 0; rank < candidates.length; rank++) {
    const index = candidates.rank(rank);
    // Weights fall with the rank, so only rounding errors are left beyond this one.
    if (candidates.weights[index] === 0) break;
    last = index;
    reached += candidates.weights[index];
    if (reached > target) break;
  }
  return last;
}

interface Walk {
  /** The token at which the running sum passed the target; undefined if it did not. */
  readonly token: number | undefined;
  readonly reached: number;
  /** The last token with a weight above zero. */
  readonly last: number;
}

/** Sums e^((logit - origin) / temperature) by id. */
function walk(logits: Float32Array | Float64Array, origin: number, temperature: number, target: number): Walk {
  const floor = origin - NEGLIGIBLE_NATS * temperature;
  let reached = 0;
  let last = 0;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token];
    if (!(logit >= floor)) continue;
    last = token;
    reached += Math.exp((logit - origin) / temperature);
    if (reached > target) return { token, reached, last };
  }
  return { token: undefined, reached, last };
}

function highestOf(logits: Float32Array | Float64Array): number {
  let highest = Number.NEGATIVE_INFINITY;
  for (let token = 0; token < logits.length; token++) if (logits[token] > highest) highest = logits[token];
  return highest;
}
