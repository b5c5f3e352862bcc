// Steps that a warm-up prepares, by what determines how they are computed.

/** A class of steps, described by what determines its kernels, BLAS plans and graphs. */
export interface StepShape {
  /** Number of decoding sequences: one token each, with an output. */
  readonly decoding: number;
  /** Prefill tokens of one further sequence, from its first on, with an output for the last; 0 for none. */
  readonly prompt: number;
  /** Number of positions of the longest decoding sequence after the step. */
  readonly longest: number;
}

/** A step that a warm-up prepares. */
export interface WarmUpStep extends StepShape {
  /** Whether a step of this shape is run once it is prepared, or only its BLAS matmuls (`rehearse`). */
  readonly runs: boolean;
  /**
   * Whether its first run, once prepared, takes only some milliseconds longer than later ones, so that readiness does
   * not depend on it.
   */
  readonly deferred: boolean;
}
