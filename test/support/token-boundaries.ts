// Whether a random number falls so near to the boundary between two tokens that rounding may decide between them.

import type { TokenSampling } from "../../src/backends/contract.js";
import type { SampleInput } from "../../src/sampler/candidates.js";
import { choose } from "../../src/sampler/token-choice.js";

/** Probability on either side of a draw within which another token may be chosen. */
export const BOUNDARY = 1e-5;

/** Whether the host's chain chooses another token for a draw that differs by `BOUNDARY`. */
export function isNearBoundary(row: SampleInput, sampling: TokenSampling): boolean {
  const token = choose(row, sampling);
  const below = Math.max(0, sampling.draw - BOUNDARY);
  const above = Math.min(1 - Number.EPSILON, sampling.draw + BOUNDARY);
  return [below, above].some((draw) => choose(row, { ...sampling, draw }) !== token);
}
