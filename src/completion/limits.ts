// Limits on a completion that are not the model's own. The library has none; the server passes its own limits.

/** Bounds on what one request may send and generate. */
export interface CompletionLimits {
  /** Characters of all texts of a prompt together. */
  readonly promptCharacters: number;
  /** Tokens of one prompt, if that is less than the context length. */
  readonly promptTokens: number;
  /** Tokens generated for one choice, if that is less than the context length. */
  readonly outputTokens: number;
  /** Log-probabilities in one response, alternatives included; generation ends before it would exceed them. */
  readonly logprobEntries: number;
}

/** No limits besides the model's own. */
export const NO_COMPLETION_LIMITS: CompletionLimits = Object.freeze({
  promptCharacters: Infinity,
  promptTokens: Infinity,
  outputTokens: Infinity,
  logprobEntries: Infinity,
});
