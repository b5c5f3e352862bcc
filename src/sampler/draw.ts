// The last stage: temperature, then one random choice. Candidates are walked from the most likely down, so the choice
// depends on the set and the random number, not on the order they came in; a vocabulary of which nothing was cut is
// walked by id, which takes no ranking.

import type { Candidates } from "./candidates.js";
import type { RandomSource } from "./rng.js";

/** What lies so far below the rest (e^-40) is less, a whole vocabulary of it, than a random number can tell. */
const NEGLIGIBLE_NATS = 40;

/** Chooses from the whole vocabulary: logits by id, and the log of the sum of their exponentials where that is known. */
export function drawFromAll(
  logits: Float32Array | Float64Array,
  logSum: number | undefined,
  temperature: number,
  random: RandomSource,
): number {
  let point = random.next();
  if (temperature === 1 && logSum !== undefined) {
    const { token, reached } = walk(logits, logSum, 1, point);
    if (token !== undefined) return token;
    // A log-sum of single precision may promise a little more than there is; a point beyond that is anywhere.
    point = (point - reached) / (1 - reached);
  }
  const highest = highestOf(logits);
  const { reached: total, last } = walk(logits, highest, temperature, Number.POSITIVE_INFINITY);
  return walk(logits, highest, temperature, point * total).token ?? last;
}

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

interface Walk {
  /** The token at which the running sum passed the target; undefined when it did not. */
  readonly token: number | undefined;
  readonly reached: number;
  /** The last one that counts. */
  readonly last: number;
}

/** Adds up e^((logit - origin) / temperature) by id. */
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
