// Limits on the size of a step and of the queue.

/** What the scheduler may put into one step, and how many sequences it manages. */
export interface SchedulerLimits {
  /** Maximum tokens of one step. */
  readonly stepTokens: number;
  /** Maximum output rows of one step. */
  readonly stepOutputs: number;
  /** Maximum prefill tokens of a step without decoding sequences. */
  readonly prefillTokens: number;
  /** Prefill tokens of a step with decoding sequences, which wait for the whole step, until its time is measured. */
  readonly prefillTokensWhileDecoding: number;
  /** Maximum number of running sequences. */
  readonly sequences: number;
  /** Maximum number of sequences that wait for their first step. */
  readonly queued: number;
}

/** A backend's limits on one step. */
interface StepCapacity {
  readonly maxStepTokens: number;
  readonly maxStepOutputs: number;
  readonly chunkTokens?: number;
}

/** Share of a prefill chunk that prompts get at first while other sequences decode. */
const SHARE_WHILE_DECODING = 1 / 8;
/** A decode step reads all weights anyway; this many additional prefill tokens cost little. */
export const LEAST_WHILE_DECODING = 32;

/** The scheduler's limits for a backend and an engine's options. */
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
    // Half of a step is reserved for prefill, and each sequence needs an output row.
    sequences: Math.max(1, Math.min(sequences, maxStepOutputs, Math.floor(maxStepTokens / 2))),
    queued,
  };
}
