// Longer steps for bursts of short prompts. A short prompt waits for others, not for its own length: when a hundred arrive
// together beside decoding sequences, steps of the usual length compute them so slowly that the last ones wait for several
// times as long as one that arrives alone. Invariant: longer steps are so few that 99 % of all gaps between tokens stay as
// they are without them, however many prompts arrive.

/**
 * Target for the time of a longer step. A gap of 60 ms is noticed; what this leaves of it is for the host between two steps
 * and for estimates that are too low.
 */
export const LONGER_TARGET_MS = 45;
/** A prompt is short if a longer step computes at least this many of its length. */
const SHORT_PROMPTS = 8;
/** Usual steps that waiting short prompts fill when a burst begins: with the running step, the last waits for about 100 ms. */
const BURST_STEPS = 2;
/** Longer steps that a usual step earns: half of the one percent of gaps that may be long. */
const EARNED_STEPS = 1 / 200;
/** Maximum longer steps that are saved up: two bursts of 200 clients. */
const MOST_SAVED_STEPS = 8;

/** Tokens of prefill that a step of either length can have. */
interface StepLengths {
  readonly usual: number;
  readonly longer: number;
}

/** Decides which steps are longer ones. */
export class PrefillBurst {
  #saved = MOST_SAVED_STEPS;
  #isGoingOn = false;

  /** Whether the next step may be a longer one, for prompts with these numbers of tokens left. */
  needsLonger(promptTokens: readonly number[], { usual, longer }: StepLengths): boolean {
    if (this.#saved < 1 || longer <= usual) return false;
    let shortTokens = 0;
    for (const tokens of promptTokens) if (tokens * SHORT_PROMPTS <= longer) shortTokens += tokens;
    // Once begun, it goes on until a usual step is enough: those at the end have waited longest.
    return shortTokens > usual * (this.#isGoingOn ? 1 : BURST_STEPS);
  }

  /** Counts a step for which sequences that decode have waited. */
  stepped(isLonger: boolean): void {
    this.#isGoingOn = isLonger;
    this.#saved = isLonger ? this.#saved - 1 : Math.min(MOST_SAVED_STEPS, this.#saved + EARNED_STEPS);
  }
}
