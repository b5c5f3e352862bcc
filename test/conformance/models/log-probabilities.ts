// Logits as log-probabilities, and how far two sets of them are apart.

/** In double precision, row by row. */
export function logProbabilities(logits: Float32Array, width: number): Float64Array {
  const result = new Float64Array(logits.length);
  for (let row = 0; row < logits.length; row += width) {
    let highest = Number.NEGATIVE_INFINITY;
    for (let token = 0; token < width; token++) highest = Math.max(highest, logits[row + token]);
    let sum = 0;
    for (let token = 0; token < width; token++) sum += Math.exp(logits[row + token] - highest);
    const logSum = highest + Math.log(sum);
    for (let token = 0; token < width; token++) result[row + token] = logits[row + token] - logSum;
  }
  return result;
}

export interface Distance {
  /** The largest difference of any token at any position; NaN where a side has one. */
  readonly largest: number;
  readonly mean: number;
  /** Kullback-Leibler divergence from `right` to `left`, averaged over the positions. */
  readonly divergence: number;
  /** The same without the position where it is largest. */
  readonly divergenceOfOthers: number;
}

export function distance(left: Float32Array, right: Float32Array, width: number): Distance {
  const leftLogs = logProbabilities(left, width);
  const rightLogs = logProbabilities(right, width);
  const divergences = new Float64Array(left.length / width);
  let largest = 0;
  let total = 0;
  for (const [index, expected] of rightLogs.entries()) {
    const difference = Math.abs(leftLogs[index] - expected);
    largest = Math.max(largest, difference);
    total += difference;
    divergences[Math.floor(index / width)] += Math.exp(expected) * (expected - leftLogs[index]);
  }
  const divergence = divergences.reduce((sum, one) => sum + one, 0);
  return {
    largest,
    mean: total / left.length,
    divergence: divergence / divergences.length,
    divergenceOfOthers: (divergence - Math.max(...divergences)) / Math.max(1, divergences.length - 1),
  };
}
