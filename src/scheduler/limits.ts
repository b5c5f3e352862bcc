// What a step and a queue may hold.

export interface SchedulerLimits {
  /** The most tokens of one step. */
  readonly stepTokens: number;
  /** The most output rows of one step. */
  readonly stepOutputs: number;
  /** The most prompt tokens of a step in which nobody writes, */
  readonly prefillTokens: number;
  /** and of one in which somebody does: writers wait for the whole step. */
  readonly prefillTokensWhileDecoding: number;
  /** Sequences that run at once. */
  readonly sequences: number;
  /** Sequences that wait for their first step. */
  readonly queued: number;
}

/** What a backend can do in one step. */
export interface StepCapacity {
  readonly maxStepTokens: number;
  readonly maxStepOutputs: number;
  readonly chunkTokens?: number;
}

/** Of a step's prompt tokens, what is left to prompts while others write. */
const SHARE_WHILE_DECODING = 1 / 4;
/** A step that reads the weights for writers computes so many prompt tokens for little more. */
const LEAST_WHILE_DECODING = 32;

export function schedulerLimits(
  { maxStepTokens, maxStepOutputs, chunkTokens = maxStepTokens }: StepCapacity,
  { sequences, queued }: { readonly sequences: number; readonly queued: number },
): SchedulerLimits {
  const prefillTokens = Math.min(chunkTokens, maxStepTokens);
  return {
    stepTokens: maxStepTokens,
    stepOutputs: maxStepOutputs,
    prefillTokens,
    prefillTokensWhileDecoding: Math.min(
      prefillTokens,
      Math.max(LEAST_WHILE_DECODING, Math.floor(prefillTokens * SHARE_WHILE_DECODING)),
    ),
    // Half a step is always left to prompts, and each sequence has an output row.
    sequences: Math.max(1, Math.min(sequences, maxStepOutputs, Math.floor(maxStepTokens / 2))),
    queued,
  };
}
