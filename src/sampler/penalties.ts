// Penalties on recent tokens. The repeat penalty makes a token less likely whatever the sign of its logit (positive
// ones are divided, negative ones multiplied); the frequency penalty is subtracted once per occurrence, the presence
// penalty once, the DRY penalty of a token that would repeat a passage after them. A step gets all of them as one list.

import type { TokenPenalties } from "../backends/contract.js";
import type { Candidates } from "./candidates.js";

/** The options of the repeat, frequency and presence penalties. */
interface PenaltyOptions {
  readonly repeatPenalty: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly penaltyTokens: number;
}

/** Whether the options turn any of the three penalties on. */
export function hasPenalties(options: PenaltyOptions): boolean {
  if (options.penaltyTokens === 0) return false;
  return options.repeatPenalty !== 1 || options.frequencyPenalty !== 0 || options.presencePenalty !== 0;
}

/** Whether the penalties cannot raise any token: then the best token afterwards was near the top before. */
export function onlyLowers(options: PenaltyOptions): boolean {
  return options.repeatPenalty >= 1 && options.frequencyPenalty >= 0 && options.presencePenalty >= 0;
}

/** The penalties of tokens that occur in the window, `counts` times each, and of those that DRY penalises. */
export function penaltiesOf(
  counts: ReadonlyMap<number, number>,
  dry: ReadonlyMap<number, number>,
  { repeatPenalty, frequencyPenalty, presencePenalty }: PenaltyOptions,
): TokenPenalties | undefined {
  if (counts.size === 0 && dry.size === 0) return undefined;
  const ids = new Int32Array(counts.size + dry.size);
  let length = 0;
  for (const id of counts.keys()) ids[length++] = id;
  for (const id of dry.keys()) if (!counts.has(id)) ids[length++] = id;
  const sorted = ids.subarray(0, length).sort();
  const factors = new Float32Array(length).fill(1);
  const decreases = new Float32Array(length);
  for (let index = 0; index < length; index++) {
    const count = counts.get(sorted[index]);
    if (count !== undefined) {
      factors[index] = repeatPenalty;
      decreases[index] = frequencyPenalty * count + presencePenalty;
    }
    const repeated = dry.get(sorted[index]);
    if (repeated !== undefined) decreases[index] += repeated;
  }
  return { ids: sorted, factors, decreases };
}

/** How many tokens the penalties lower; undefined if they may raise some. */
export function loweredTokens(penalties: TokenPenalties | undefined): number | undefined {
  if (penalties === undefined) return 0;
  const { ids, factors, decreases } = penalties;
  for (let index = 0; index < ids.length; index++) if (factors[index] < 1 || decreases[index] < 0) return undefined;
  return ids.length;
}

/** Applies penalties to the candidates' logits; only before anything is ranked. */
export function applyPenalties(candidates: Candidates, { ids, factors, decreases }: TokenPenalties): void {
  candidates.adjust(ids, (logit, index) => {
    const repeated = logit > 0 ? logit / factors[index] : logit * factors[index];
    return Math.fround(repeated - decreases[index]);
  });
}
