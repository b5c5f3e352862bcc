// How many prefill tokens go into a step beside decoding sequences, which wait for the whole step: the most that keep its
// time within a target. Learned from the steps themselves, size by size, because the time depends on the device, the
// model, the depth and the number of sequences, and because a larger chunk may be faster where it uses other kernels.

import { LEAST_WHILE_DECODING, type SchedulerLimits } from "./limits.js";
import type { StepSlice } from "./scheduler.js";

/** Long enough for a GPU's matrix units, too short for a reader to notice. */
const TARGET_MS = 26;
/** On a slow device a step with prefill may take this many times as long as one without. */
const MOST_DECODE_STEPS = 2.5;
/** Decode steps that are measured before they count: the first ones load weights and kernels. */
const FIRST_STEPS = 8;
/** Weight of the latest step in a mean. */
const WEIGHT = 0.25;
/** A step that takes this many times as long as others of its size was slow for another reason. */
const OUTLIER = 2;
/** Number of sizes that are told apart. */
const SIZES = 32;
/** After this many steps a larger chunk is tried again. */
const RETRY_STEPS = 256;

/** The number of tokens of one step, by kind. */
export interface StepTokens {
  readonly decoding: number;
  readonly prefill: number;
}

/** The tokens of a step before its results are taken; drafts are part of decoding. */
export function stepTokensOf(slices: readonly StepSlice[]): StepTokens {
  let [decoding, prefill] = [0, 0];
  for (const { count, draft } of slices) {
    if (count - draft.length === 1) decoding++;
    else prefill += count;
  }
  return { decoding, prefill };
}

/** A mean that recent values count most in, and a single outlier not at all. */
class SteadyMean {
  #value: number | undefined;
  #count = 0;
  #isSkipping = false;

  get value(): number | undefined {
    return this.#value;
  }

  get count(): number {
    return this.#count;
  }

  add(value: number): void {
    this.#count++;
    const mean = this.#value ?? value;
    this.#isSkipping = value > mean * OUTLIER && !this.#isSkipping;
    // The first values may be far too high.
    if (value < mean / OUTLIER) this.#value = value;
    else if (!this.#isSkipping) this.#value = mean + (value - mean) * WEIGHT;
  }

  clear(): void {
    this.#value = undefined;
  }
}

/** Adjusts the prefill tokens of mixed steps to the time they take. */
export class PrefillPace {
  /** Tokens of a step, decoding included, come in multiples of this: matrix units compute whole tiles. */
  readonly #grain: number;
  readonly #least: number;
  readonly #most: number;
  /** Times of mixed steps by the size of their chunk. */
  readonly #times: readonly SteadyMean[];
  readonly #decodeMs = new SteadyMean();
  #size: number;
  #steps = 0;

  constructor({ prefillTokens, prefillTokensWhileDecoding }: SchedulerLimits) {
    this.#most = prefillTokens;
    this.#least = Math.min(prefillTokensWhileDecoding, LEAST_WHILE_DECODING);
    this.#grain = Math.max(this.#least, Math.ceil(prefillTokens / SIZES));
    this.#times = Array.from({ length: Math.ceil(prefillTokens / this.#grain) + 1 }, () => new SteadyMean());
    this.#size = Math.floor(prefillTokensWhileDecoding / this.#grain);
  }

  /** Maximum prefill tokens of a step with this many decoding sequences. */
  beside(decoding: number): number {
    const whole = this.#size * this.#grain;
    const tokens = whole - (decoding % this.#grain);
    return Math.max(this.#least, Math.min(this.#most, tokens <= 0 ? whole : tokens));
  }

  /** Records how long a step took. Steps without decoding sequences tell nothing: nobody waits for them. */
  measured({ decoding, prefill }: StepTokens, milliseconds: number): void {
    if (decoding === 0 || milliseconds <= 0) return;
    if (prefill === 0) return this.#decodeMs.add(milliseconds);
    const size = Math.min(this.#times.length - 1, Math.round((prefill + (decoding % this.#grain)) / this.#grain));
    this.#times[size].add(milliseconds);
    if (++this.#steps % RETRY_STEPS === 0) this.#times[this.#size + 1]?.clear();
    this.#choose(size);
  }

  /** The largest size within the target, or the next one if that is likely to be within it, too. */
  #choose(measured: number): void {
    const targetMs = this.#targetMs;
    const within = this.#times.findLastIndex(({ value }) => value !== undefined && value <= targetMs);
    if (within === -1) return this.#shrink(measured);
    const next = this.#times[within + 1]?.value;
    // Proportional to the size is the most that it is likely to take.
    const likelyMs = ((this.#times[within].value ?? 0) * (within + 1)) / Math.max(1, within);
    this.#size = within + 1 < this.#times.length && next === undefined && likelyMs <= targetMs ? within + 1 : within;
  }

  /** No size is within the target: tries the next smaller one, or stays with the fastest if that was tried. */
  #shrink(measured: number): void {
    if (measured > 0 && this.#times[measured - 1].value === undefined) {
      this.#size = measured - 1;
      return;
    }
    let fastest = measured;
    for (const [size, { value }] of this.#times.entries())
      if (value !== undefined && value < (this.#times[fastest].value ?? 0)) fastest = size;
    this.#size = fastest;
  }

  get #targetMs(): number {
    const decodeMs = this.#decodeMs.count < FIRST_STEPS ? 0 : (this.#decodeMs.value ?? 0);
    return Math.max(TARGET_MS, decodeMs * MOST_DECODE_STEPS);
  }
}
