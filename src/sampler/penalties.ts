// Penalties on recent tokens. The repeat penalty makes a token less likely whatever the sign of its logit (positive
// ones are divided, negative ones multiplied); the frequency penalty is subtracted once per occurrence, the presence
// penalty once.

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

/** Applies the three penalties to the candidates' logits. */
export function applyPenalties(
  candidates: Candidates,
  counts: ReadonlyMap<number, number>,
  options: PenaltyOptions,
): void {
  const { repeatPenalty, frequencyPenalty, presencePenalty } = options;
  candidates.adjust(counts, (logit, count) => {
    const repeated = logit > 0 ? logit / repeatPenalty : logit * repeatPenalty;
    return repeated - frequencyPenalty * count - presencePenalty;
  });
}
