// What a draft token costs, measured: times of decode steps with and without drafts, from which follows how long a draft
// may be. A draft token pays if it is accepted often enough for what it adds to the step; the more sequences share a
// step, the less a wasted token is free. For a sequence alone the costs move rarely, so that its text is the same each
// time.

import { SteadyCost } from "./steady-cost.js";

/** Cost of a draft token in plain steps of one sequence before any was measured: between a GPU's and a CPU's. */
const FIRST_TOKEN_COST = 0.15;
/** Cost of a batch drafter's token for one sequence, before any was measured. */
const FIRST_DRAFTING_COST = 0.1;
/** Drafts have to pay by more than the noise of the measurement. */
const MARGIN = 1.1;
const WEIGHT = 0.1;
/** Times that get shorter count more: a first step may compile kernels. */
const WEIGHT_OF_SHORTER = 0.4;
/** A single slow step counts as no more than this many plain steps above the mean. */
const LARGEST_RISE = 0.5;
/** With each plain step a cost that stopped all drafts is forgotten a little, so that they are tried again. */
const FORGETTING = 0.002;

/** Decides the length of drafts. */
export interface DraftPolicy {
  /** Records a step that only decoded. */
  measured(milliseconds: number, sequences: number, draftTokens: number): void;
  /** Records how long a batch drafter took for its longest draft. */
  drafted(milliseconds: number, tokens: number): void;
  /**
   * The length of a draft that gives the most tokens per second, 0 if none pays, for a sequence in a step of this many
   * sequences. `acceptance` is the probability that a draft token is accepted if those before it were.
   */
  bestLength(acceptance: number, sequences: number, most: number, isBatchDrafted?: boolean): number;
}

/** Learns the cost of draft tokens and decides the length of drafts. */
export class DraftCosts implements DraftPolicy {
  /** Mean milliseconds of a plain decode step, by its number of sequences. */
  readonly #plainMs: number[] = [];
  /** Mean milliseconds that one draft token adds. */
  #tokenMs: number | undefined;
  /** Mean milliseconds that a batch drafter takes for one token. */
  #draftingMs: number | undefined;
  /** For a sequence alone, in plain steps: what a draft token adds, and what a batch drafter takes for one. */
  readonly #tokenCost = new SteadyCost(FIRST_TOKEN_COST);
  readonly #draftingCost = new SteadyCost(FIRST_DRAFTING_COST);
  /** Sequences of the last step. */
  #sequences = 1;

  measured(milliseconds: number, sequences: number, draftTokens: number): void {
    const plain = this.#plainMs[sequences];
    this.#sequences = sequences;
    if (draftTokens === 0) {
      this.#tokenCost.skipped();
      this.#draftingCost.skipped();
      this.#plainMs[sequences] = blend(plain, milliseconds, (plain ?? 0) * LARGEST_RISE);
      if (this.#tokenMs !== undefined) this.#tokenMs += (this.#guessMs(sequences) - this.#tokenMs) * FORGETTING;
      return;
    }
    if (plain === undefined) return;
    const added = Math.max(0, milliseconds - plain) / draftTokens;
    if (sequences === 1) this.#tokenCost.measured(added / plain);
    // The first sample may contain the compilation of kernels, so that it only moves the guess.
    this.#tokenMs = blend(this.#tokenMs ?? this.#guessMs(sequences), added, plain * LARGEST_RISE);
  }

  drafted(milliseconds: number, tokens: number): void {
    if (tokens === 0) return;
    const mean = this.#draftingMs;
    const plain = this.#plainMs[1];
    if (this.#sequences === 1 && plain !== undefined) this.#draftingCost.measured(milliseconds / tokens / plain);
    this.#draftingMs = blend(mean, milliseconds / tokens, (mean ?? 0) * LARGEST_RISE);
  }

  bestLength(acceptance: number, sequences: number, most: number, isBatchDrafted = false): number {
    const { tokenCost, draftingCost } = this.#costs(sequences, isBatchDrafted);
    const added = (tokenCost * sequences + draftingCost) * MARGIN;
    let [tokens, cost, likelihood, length] = [1, 1, acceptance, 0];
    // The next token pays while it is better than the mean so far.
    while (length < most && likelihood * cost > added * tokens) {
      tokens += likelihood;
      cost += added;
      likelihood *= acceptance;
      length++;
    }
    return length;
  }

  /** What one more draft token costs, as a multiple of a plain step with this number of sequences. */
  #costs(sequences: number, isBatchDrafted: boolean): { tokenCost: number; draftingCost: number } {
    if (sequences === 1) {
      return { tokenCost: this.#tokenCost.value, draftingCost: isBatchDrafted ? this.#draftingCost.value : 0 };
    }
    const plain = this.#plainMs[sequences] ?? this.#plainMs[1];
    if (plain === undefined) return { tokenCost: FIRST_TOKEN_COST, draftingCost: 0 };
    const tokenMs = this.#tokenMs ?? this.#guessMs(sequences);
    return { tokenCost: tokenMs / plain, draftingCost: isBatchDrafted ? (this.#draftingMs ?? 0) / plain : 0 };
  }

  /** Before a draft was measured: what one more sequence adds to a step is about what one more token adds. */
  #guessMs(sequences: number): number {
    const [one, many] = [this.#plainMs[1], this.#plainMs[sequences]];
    if (one !== undefined && many !== undefined && sequences > 1) return Math.max(0, many - one) / (sequences - 1);
    return FIRST_TOKEN_COST * (one ?? many ?? 0);
  }
}

function blend(mean: number | undefined, sample: number, largestRise: number): number {
  if (mean === undefined) return sample;
  if (sample < mean) return mean + (sample - mean) * WEIGHT_OF_SHORTER;
  return mean + Math.min(sample - mean, largestRise) * WEIGHT;
}
