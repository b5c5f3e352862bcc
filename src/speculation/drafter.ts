// Drafters propose tokens that may follow a text; the target model verifies them in one step. A drafter may be wrong at
// any time: verification samples every token as if there were no draft. Pure types.

/** Tokens that may come next, and how often such drafts have proved right. */
export interface Draft {
  readonly tokens: Int32Array;
  /** The class of drafts whose acceptance this one counts for. */
  readonly confidence: number;
}

/** Drafts for one text from the text alone, in microseconds: called between two steps. */
export interface TextDrafter {
  /** Of each confidence class, the acceptance that is assumed before any draft was verified. */
  readonly firstAcceptance: readonly number[];
  /** A draft of at most `most` tokens; undefined if it has none. */
  draft(tokens: Int32Array, most: number): Draft | undefined;
}

/** A sequence that asks for a draft. */
export interface DraftRequest {
  /** Identifies the sequence from step to step, until it is released. */
  readonly sequence: object;
  /** The text so far. The target has not computed the last token yet. */
  readonly tokens: Int32Array;
  readonly most: number;
}

/** Drafts for many sequences at once in steps of its own: a smaller model, or heads of the target (MTP). */
export interface BatchDrafter extends AsyncDisposable {
  /** One draft for each request: undefined if there can be none now, empty if no token is likely enough. */
  draft(requests: readonly DraftRequest[], signal: AbortSignal): Promise<readonly (Int32Array | undefined)[]>;
  /** Frees what the drafter holds for a sequence that has ended. */
  release(sequence: object): void;
}
