// Several measurements of one thing: the median, and the lowest and highest as a measure of noise.

/** The median, minimum and maximum of repeated measurements. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  /** In the order in which they were measured. */
  readonly samples: readonly number[];
}

/** The spread of some samples. */
export function spreadOf(samples: readonly number[]): Spread {
  const sorted = samples.toSorted((left, right) => left - right);
  const middle = sorted.length / 2;
  const median = (sorted[Math.ceil(middle) - 1] + sorted[Math.floor(middle)]) / 2;
  return { median, min: sorted[0], max: sorted[sorted.length - 1], samples };
}
