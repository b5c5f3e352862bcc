// How much a step and the queue may hold.

export interface SchedulerLimits {
  /** The most tokens of one step. */
  readonly stepTokens: number;
  /** The most output rows of one step. */
  readonly stepOutputs: number;
  /** The most prefill tokens of a step without decoding sequences. */
  readonly prefillTokens: number;
  /** The most prefill tokens of a step with decoding sequences, which wait for the whole step. */
  readonly prefillTokensWhileDecoding: number;
  /** Sequences that run at once. */
  readonly sequences: number;
  /** Sequences that may wait for their first step. */
  readonly queued: number;
}

/** What a backend can compute in one step. */
interface StepCapacity {
  readonly maxStepTokens: number;
  readonly maxStepOutputs: number;
  readonly chunkTokens?: number;
}

/** The part of a prefill chunk that is left to prompts while other sequences decode. */
const SHARE_WHILE_DECODING = 1 / 4;
/** A decode step reads all weights; it computes this many prefill tokens beside for little more. */
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
    // Half a step is always left to prefill, and each sequence has an output row.
    sequences: Math.max(1, Math.min(sequences, maxStepOutputs, Math.floor(maxStepTokens / 2))),
    queued,
  };
}
