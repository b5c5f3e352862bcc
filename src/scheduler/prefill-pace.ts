// How many prefill tokens go into a step beside decoding sequences, which wait for the whole step: the most that keep its
// time within a target. Learned from the steps themselves, size by size, because the time depends on the device, the
// model, the depth and the number of sequences, and because a larger chunk may be faster where it uses other kernels. What
// is measured contains what the host did when a step ended, so that no single time counts much if it is a long one.

import { LONGER_TARGET_MS, PrefillBurst } from "./prefill-burst.js";
import { LEAST_WHILE_DECODING, type SchedulerLimits } from "./limits.js";
import type { StepSlice } from "./step-slice.js";

/** Long enough for a GPU's matrix units, too short for a reader to notice. */
const TARGET_MS = 28;
/** On a slow device a step with prefill may take this many times as long as one without. */
const MOST_DECODE_STEPS = 2.5;
/** Decode steps that are measured before they count: the first ones load weights and kernels. */
const FIRST_STEPS = 8;
/** Weight of the latest step in a mean. */
const WEIGHT = 0.25;
/** A mean that is this many times as high as a value was wrong: the first steps load weights and kernels. */
const OUTLIER = 2;
/** A step raises the mean of its size by this factor at most: it may have been slow for another reason. */
const MOST_RISE = 1.1;
/** After this many high values in a row the next ones count in full. */
const SURE_RISES = 2;
/** Number of sizes that are told apart. */
const SIZES = 32;
/** After this many steps larger chunks are tried again. */
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

/** A mean that recent values count most in, and high ones little. */
class SteadyMean {
  #value: number | undefined;
  #count = 0;
  /** Values above the mean since the last one below it. */
  #rises = 0;

  get value(): number | undefined {
    return this.#value;
  }

  get count(): number {
    return this.#count;
  }

  /** Adds a value, which counts as no more than `most` if it is the first. */
  add(value: number, most = value): void {
    this.#count++;
    const mean = this.#value ?? Math.min(value, most);
    const mostRise = this.#rises < SURE_RISES ? MOST_RISE : Number.POSITIVE_INFINITY;
    this.#rises = value > mean ? this.#rises + 1 : 0;
    this.#value = value < mean / OUTLIER ? value : Math.min(mean + (value - mean) * WEIGHT, mean * mostRise);
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
  readonly #burst = new PrefillBurst();
  #size: number;
  #steps = 0;

  constructor({ prefillTokens, prefillTokensWhileDecoding }: SchedulerLimits) {
    this.#most = prefillTokens;
    this.#least = Math.min(prefillTokensWhileDecoding, LEAST_WHILE_DECODING);
    this.#grain = Math.max(this.#least, Math.ceil(prefillTokens / SIZES));
    this.#times = Array.from({ length: Math.ceil(prefillTokens / this.#grain) + 1 }, () => new SteadyMean());
    this.#size = Math.floor(prefillTokensWhileDecoding / this.#grain);
  }

  /**
   * Maximum prefill tokens of a step with this many decoding sequences, of prompts with these numbers of tokens left: more
   * in a burst of short prompts.
   */
  beside(decoding: number, promptTokens: readonly number[] = []): number {
    const usual = this.#tokensOf(this.#size, decoding);
    if (promptTokens.length === 0) return usual;
    const longestMs = Math.max(LONGER_TARGET_MS, this.#targetMs);
    const longer = this.#tokensOf(this.#largestWithin(longestMs) ?? 0, decoding);
    return this.#burst.needsLonger(promptTokens, { usual, longer }) ? longer : usual;
  }

  /** Records how long a step took. Steps without decoding sequences tell nothing: nobody waits for them. */
  measured({ decoding, prefill }: StepTokens, milliseconds: number): void {
    if (decoding === 0 || milliseconds <= 0) return;
    this.#burst.stepped(prefill > this.#tokensOf(this.#size, decoding));
    if (prefill === 0) return this.#decodeMs.add(milliseconds);
    const size = Math.min(this.#times.length - 1, Math.round((prefill + (decoding % this.#grain)) / this.#grain));
    const smaller = this.#times.findLastIndex(({ value }, index) => index < size && value !== undefined);
    this.#times[size].add(milliseconds, smaller > 0 ? this.#likelyMs(size, smaller) : milliseconds);
    if (++this.#steps % RETRY_STEPS === 0) for (const larger of this.#times.slice(this.#size + 1)) larger.clear();
    this.#choose(size);
  }

  /** Prefill tokens of a step of a size: with decoding, whole tiles. */
  #tokensOf(size: number, decoding: number): number {
    const whole = size * this.#grain;
    const tokens = whole - (decoding % this.#grain);
    return Math.max(this.#least, Math.min(this.#most, tokens <= 0 ? whole : tokens));
  }

  #choose(measured: number): void {
    const size = this.#largestWithin(this.#targetMs);
    if (size === undefined) this.#shrink(measured);
    else this.#size = size;
  }

  /** The largest size within a target, or a larger one that is likely to be within it and was not tried. */
  #largestWithin(targetMs: number): number | undefined {
    const within = this.#times.findLastIndex(({ value }) => value !== undefined && value <= targetMs);
    if (within === -1) return undefined;
    const tried = this.#times.findIndex(({ value }, size) => size > within && value !== undefined);
    const most = (tried === -1 ? this.#times.length : tried) - 1;
    // The smallest chunks tell nothing of larger ones than the next.
    let size = within === 0 ? Math.min(1, most) : within;
    while (within > 0 && size < most && this.#likelyMs(size + 1, within) <= targetMs) size++;
    return size;
  }

  /** Proportional to the size is the most that a size is likely to take, by the time of a smaller one. */
  #likelyMs(size: number, smaller: number): number {
    return ((this.#times[smaller].value ?? 0) * size) / smaller;
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
