// Log-probabilities of a sampled token and of the likeliest alternatives, from its output row.

import type { SampledRow } from "./choice-rows.js";
import type { TokenLogprob } from "./serving.js";

/**
 * Log-probabilities after mask and bias, before penalties and temperature, with the `count` likeliest tokens, fewer if
 * fewer are possible.
 */
export function tokenLogprob(row: SampledRow, token: number, count: number): TokenLogprob {
  const top =
    row.kind === "logits" ? likeliest(row.logits, count) : Array.from(row.ids.subarray(0, count), (_, index) => index);
  const idAt = (index: number): number => (row.kind === "logits" ? index : row.ids[index]);
  return {
    token,
    logprob: logitOf(row, token) - row.logSum,
    top: top
      .filter((index) => row.logits[index] > Number.NEGATIVE_INFINITY)
      .map((index) => ({ token: idAt(index), logprob: row.logits[index] - row.logSum })),
  };
}

function logitOf(row: SampledRow, token: number): number {
  if (row.kind === "token") return row.logit;
  return row.logits[row.kind === "logits" ? token : row.ids.indexOf(token)];
}

/** Indices of the highest logits, highest first; among equal ones the lower index first. */
function likeliest(logits: Float32Array, count: number): number[] {
  const best: number[] = [];
  if (count === 0) return best;
  for (let index = 0; index < logits.length; index++) {
    if (best.length === count && !(logits[index] > logits[best[count - 1]])) continue;
    let place = best.length;
    while (place > 0 && logits[index] > logits[best[place - 1]]) place--;
    best.splice(place, 0, index);
    if (best.length > count) best.pop();
  }
  return best;
}
