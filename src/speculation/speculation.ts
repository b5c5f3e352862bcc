// Speculative decoding of one engine: which drafters it has, what drafts cost, and what became of them. The engine's
// choices ask it for drafts between steps; drafters that need steps of their own answer all who wait at once.

import { Acceptance } from "./acceptance.js";
import { DraftCosts, type DraftPolicy } from "./draft-costs.js";
import type { BatchDrafter, DraftRequest, TextDrafter } from "./drafter.js";

/** Which drafters may be used; "auto" uses all that the model has, if they pay. */
export type DraftMode = "auto" | "ngram" | "mtp" | "off";

/** All values of `DraftMode`. */
export const DRAFT_MODES: readonly DraftMode[] = ["auto", "ngram", "mtp", "off"];

/** Maximum tokens of a draft: a step of 16 tokens is the largest that still costs much less than 16 steps. */
export const MAX_DRAFT_TOKENS = 15;

/** Acceptance of a batch drafter's tokens before any was verified. */
const FIRST_BATCH_ACCEPTANCE = 0.7;
const NO_DRAFT = new Int32Array();

/** What an engine drafts with. */
export interface SpeculationOptions {
  /** Makes the drafter of one more text; undefined if texts have none. */
  readonly textDrafter?: () => TextDrafter;
  /** Decides the length of drafts; by default from measured times. */
  readonly policy?: DraftPolicy;
  /** A smaller model or draft heads. */
  readonly batchDrafter?: BatchDrafter;
}

/** A sequence that waits for a draft of the batch drafter. */
interface WaitingSequence extends DraftRequest {
  /** Called with the draft, which is empty if no token is likely enough. */
  readonly use: (draft: Int32Array) => void;
}

/** The drafters of one engine and their totals. */
export class Speculation implements AsyncDisposable {
  readonly policy: DraftPolicy;
  /** Draft tokens that were verified, and those of them that were accepted. */
  draftedTokens = 0;
  acceptedTokens = 0;
  /** Decoding sequences of the last step. */
  sequences = 1;
  readonly #options: SpeculationOptions;
  #batchDrafter: BatchDrafter | undefined;
  #waiting: WaitingSequence[] = [];

  constructor(options: SpeculationOptions) {
    this.#options = options;
    this.policy = options.policy ?? new DraftCosts();
    this.#batchDrafter = options.batchDrafter;
  }

  /** Whether drafts may come from a drafter with steps of its own. */
  get hasBatchDrafter(): boolean {
    return this.#batchDrafter !== undefined;
  }

  /** Whether sequences wait for the batch drafter. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** The drafts of one more sequence. */
  begin(): SequenceDrafts {
    return new SequenceDrafts(this, this.#options.textDrafter?.());
  }

  /** Records a step that only decoded. */
  measured(milliseconds: number, sequences: number, draftTokens: number): void {
    this.sequences = sequences;
    this.policy.measured(milliseconds, sequences, draftTokens);
  }

  /** Records the result of one verification. */
  verified(drafted: number, accepted: number): void {
    this.draftedTokens += drafted;
    this.acceptedTokens += accepted;
  }

  /** Asks the batch drafter for a draft with the next call of `draftWaiting`. */
  wait(sequence: WaitingSequence): void {
    this.#waiting.push(sequence);
  }

  /**
   * Drafts for all sequences that wait. Does not reject: a drafter that fails is not used again, and the target goes on
   * without it.
   */
  async draftWaiting(signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    const drafter = this.#batchDrafter;
    if (drafter === undefined || waiting.length === 0) return;
    const startMs = performance.now();
    try {
      const drafts = await drafter.draft(waiting, signal);
      // The drafts of a batch share its steps, and one that found no likely token took a step as well.
      const longest = drafts.reduce((most, draft) => Math.max(most, draft === undefined ? 0 : draft.length || 1), 0);
      this.policy.drafted(performance.now() - startMs, longest);
      for (const [index, { use }] of waiting.entries()) {
        const draft = drafts[index];
        if (draft !== undefined) use(draft);
      }
    } catch (error) {
      this.#batchDrafter = undefined;
      // A step that was cancelled is no failure of the drafter.
      if (!signal.aborted) warnOf(error);
      await closed(drafter);
    }
  }

  /** Frees what drafters hold for a sequence. */
  release(sequence: object): void {
    if (this.isWaiting) this.#waiting = this.#waiting.filter((waiting) => waiting.sequence !== sequence);
    this.#batchDrafter?.release(sequence);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#batchDrafter?.[Symbol.asyncDispose]();
  }
}

function warnOf(error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  process.emitWarning(`the draft model failed and is not used again; texts stay the same, but come slower: ${reason}`, {
    type: "RocmForgeWarning",
    code: "ROCMFORGE_DRAFTS",
  });
}

/** A drafter that has failed may fail again when it is disposed; the target does not depend on it. */
async function closed(drafter: BatchDrafter): Promise<void> {
  try {
    await drafter[Symbol.asyncDispose]();
  } catch {
    // It holds nothing that anything else uses.
  }
}

/** The drafts of one sequence: how long they should be, from what earlier ones were worth. */
export class SequenceDrafts {
  readonly #speculation: Speculation;
  readonly #drafter: TextDrafter | undefined;
  readonly #acceptance: Acceptance;
  /** The confidence class of the batch drafter. */
  readonly #batchClass: number;

  constructor(speculation: Speculation, drafter: TextDrafter | undefined) {
    this.#speculation = speculation;
    this.#drafter = drafter;
    const first = drafter?.firstAcceptance ?? [];
    this.#acceptance = new Acceptance([...first, FIRST_BATCH_ACCEPTANCE]);
    this.#batchClass = first.length;
  }

  /** Whether the batch drafter would be asked for a draft as soon as the next token is known. */
  get asksBatch(): boolean {
    return this.#bestBatchLength(1) > 0;
  }

  /** A draft that follows the text, of at most `most` tokens; empty if none pays. */
  propose(text: Int32Array, most: number): Int32Array {
    this.#acceptance.observe(text);
    const limit = Math.min(most, MAX_DRAFT_TOKENS);
    const draft = this.#drafter?.draft(text, limit);
    if (draft === undefined) return NO_DRAFT;
    const { tokens, confidence } = draft;
    this.#acceptance.expect(tokens, confidence, text.length);
    const { policy, sequences } = this.#speculation;
    return tokens.subarray(0, policy.bestLength(this.#acceptance.of(confidence), sequences, limit));
  }

  /** Length of a draft whose tokens are certain, such as those that a grammar forces. */
  certainLength(most: number): number {
    const { policy, sequences } = this.#speculation;
    return policy.bestLength(1, sequences, Math.min(most, MAX_DRAFT_TOKENS));
  }

  /**
   * Length of the draft to request from the batch drafter; 0 if it would not pay. Asked for each token, also if no draft
   * can begin there: one that does not pay is worth another try after a while.
   */
  batchLength(most: number): number {
    const length = this.#bestBatchLength(most);
    if (length === 0 && this.#speculation.hasBatchDrafter) this.#acceptance.skip(this.#batchClass);
    return length;
  }

  /** Remembers a draft of the batch drafter, to learn from what follows; an empty one was of no use. */
  expectBatch(tokens: Int32Array, position: number): void {
    if (tokens.length === 0) this.#acceptance.miss(this.#batchClass);
    else this.#acceptance.expect(tokens, this.#batchClass, position);
  }

  #bestBatchLength(most: number): number {
    const { policy, sequences, hasBatchDrafter } = this.#speculation;
    if (!hasBatchDrafter) return 0;
    return policy.bestLength(this.#acceptance.of(this.#batchClass), sequences, Math.min(most, MAX_DRAFT_TOKENS), true);
  }
}
