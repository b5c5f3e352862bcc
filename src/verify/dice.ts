// Seeded random numbers for test cases: a failing case can be reproduced from its seed.

import { RandomSource } from "../sampler/rng.js";

/** Draws numbers of several kinds from one seed. */
export class Dice {
  readonly #source: RandomSource;

  constructor(seed: number) {
    this.#source = new RandomSource(seed);
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.#source.next();
  }

  /** A whole number from 0 up to, but not including, `limit`; 0 if there is no choice. */
  below(limit: number): number {
    return Math.floor(this.#source.next() * limit);
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)];
  }

  /** Bell-shaped, mean 0 and deviation 1; by sums alone, so that every machine gets the same bits. */
  bell(): number {
    return this.between(-1, 1) + this.between(-1, 1) + this.between(-1, 1);
  }
}

/**
 * Numbers drawn one after the other. A loop, because `Float32Array.from` asks for every element by name, which takes longer
 * than drawing it.
 */
export function drawFloats(length: number, draw: (index: number) => number): Float32Array {
  const values = new Float32Array(length);
  for (let index = 0; index < length; index++) values[index] = draw(index);
  return values;
}
