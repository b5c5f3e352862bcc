// The part of the backend contract that is about tuning and profiling: what is asked of a tuner, and what it reports.

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

/** The step whose kernels are timed. */
export interface ProfileOptions {
  /** Decoding sequences, or tokens of one prompt. */
  readonly tokens: number;
  readonly isPrompt: boolean;
  /** Positions of each sequence in the KV cache, as far as the context has room. */
  readonly depth: number;
  readonly signal?: AbortSignal | undefined;
}

/** What one kernel takes in a step. */
export interface KernelTime {
  /** Human-readable: what it computes. */
  readonly label: string;
  /** Its source file, without the extension. */
  readonly kernel: string;
  /** The tensors that it reads, without their layers. */
  readonly weights: readonly string[];
  /** Their types, without duplicates. */
  readonly types: readonly string[];
  /** Bytes of the matrices of one launch; null if it reads none, or a part that depends on tokens, as of experts. */
  readonly weightBytes: number | null;
  /** Launches in the step. */
  readonly launches: number;
  /** Of one launch. */
  readonly microseconds: number;
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
