// The part of the backend contract that is about tuning: what is asked of a tuner, and what it reports.

/** Parameters that a tuner chose, with what they gained. */
export interface TunedChoice {
  /** Human-readable: what the parameters belong to, such as a family of kernels. */
  readonly kernel: string;
  /** Human-readable: types and sizes that the choice is for. */
  readonly shape: string;
  readonly before: Readonly<Record<string, number>>;
  readonly after: Readonly<Record<string, number>>;
  /** Microseconds with the parameters before, of one launch or of one token; null if they are not known. */
  readonly beforeUs: number | null;
  readonly afterUs: number | null;
}

/** Options of `CompiledProgram.tune`. */
export interface TuneOptions {
  /** Time for everything, compilations included; what is not done then stays as it is. */
  readonly budgetMs: number;
  readonly signal?: AbortSignal;
  /** `done` of `total` choices so far; more may be found later. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number; readonly what: string }) => void;
}

/** The result of tuning. */
export interface TuneReport {
  readonly choices: readonly TunedChoice[];
  /** Number of candidates that were timed. */
  readonly tried: number;
  /** Number of candidates that could not run, or computed other results. */
  readonly rejected: number;
  readonly seconds: number;
  /** Whether everything was tuned within the budget. */
  readonly isComplete: boolean;
  /** The file in which the choices were kept; null if there are none, or that failed. */
  readonly keptIn: string | null;
}
