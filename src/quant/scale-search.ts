// The search behind the K-quant encoders: which scale (and minimum) loses least for one group of values.
// Each trial stretches the grid a little, assigns levels, and solves the weighted least-squares fit for those
// levels in closed form; the best trial wins. Large values weigh more, as they matter more in a product.
// The number of trials is fixed, so any input ends; a group that is not finite is reported, not fitted.

const TINY = 1e-15;

/** Fits value ≈ scale * level - minimum, with level in 0..levels, scale ≥ 0 and minimum ≥ 0. */
export class OffsetFit {
  static readonly #TRIALS = 21;
  static readonly #FIRST_STRETCH = -1;
  static readonly #STRETCH_STEP = 0.1;

  scale = 0;
  minimum = 0;
  readonly #count: number;
  readonly #levels: number;
  readonly #weights: Float64Array;
  readonly #trial: Float64Array;

  constructor(count: number, levels: number) {
    this.#count = count;
    this.#levels = levels;
    this.#weights = new Float64Array(count);
    this.#trial = new Float64Array(count);
  }

  /** Stores the best fit in `scale` and `minimum`; false if a value is not finite. */
  search(values: Float32Array, from: number): boolean {
    this.scale = 0;
    this.minimum = 0;
    let lowest = 0;
    let highest = Number.NEGATIVE_INFINITY;
    let squares = 0;
    for (let index = 0; index < this.#count; index++) {
      const value = values[from + index];
      lowest = Math.min(lowest, value);
      highest = Math.max(highest, value);
      squares += value * value;
    }
    if (!Number.isFinite(squares)) return false;
    this.minimum = -lowest;
    if (highest - lowest < TINY) return true;

    const typical = Math.sqrt(squares / this.#count);
    let weightSum = 0;
    let valueSum = 0;
    for (let index = 0; index < this.#count; index++) {
      const weight = typical + Math.abs(values[from + index]);
      this.#weights[index] = weight;
      weightSum += weight;
      valueSum += weight * values[from + index];
    }
    this.scale = (highest - lowest) / this.#levels;
    this.#assign(values, from, lowest, 1 / this.scale);
    let leastError = this.#error(values, from, this.scale, lowest);

    for (let trial = 0; trial < OffsetFit.#TRIALS; trial++) {
      const stretched = this.#levels + OffsetFit.#FIRST_STRETCH + OffsetFit.#STRETCH_STEP * trial;
      // Starts from the best minimum so far, so that the trials refine one another.
      this.#assign(values, from, -this.minimum, stretched / (highest + this.minimum));
      let levelSum = 0;
      let levelSquares = 0;
      let mixed = 0;
      for (let index = 0; index < this.#count; index++) {
        const weighted = this.#weights[index] * this.#trial[index];
        levelSum += weighted;
        levelSquares += weighted * this.#trial[index];
        mixed += weighted * values[from + index];
      }
      const determinant = weightSum * levelSquares - levelSum * levelSum;
      if (!(determinant > 0)) continue;
      let scale = (weightSum * mixed - valueSum * levelSum) / determinant;
      let offset = (levelSquares * valueSum - levelSum * mixed) / determinant;
      if (offset > 0) {
        // The format can only subtract a minimum, so the best fit is a line through zero.
        offset = 0;
        scale = mixed / levelSquares;
      }
      const error = this.#error(values, from, scale, offset);
      if (scale > 0 && error < leastError) {
        leastError = error;
        this.scale = scale;
        this.minimum = -offset;
      }
    }
    return true;
  }

  #assign(values: Float32Array, from: number, lowest: number, inverse: number): void {
    for (let index = 0; index < this.#count; index++) {
      const level = Math.round((values[from + index] - lowest) * inverse);
      this.#trial[index] = Math.max(0, Math.min(this.#levels, level));
    }
  }

  #error(values: Float32Array, from: number, scale: number, offset: number): number {
    let error = 0;
    for (let index = 0; index < this.#count; index++) {
      const miss = scale * this.#trial[index] + offset - values[from + index];
      error += this.#weights[index] * miss * miss;
    }
    return error;
  }
}

/** Fits value ≈ scale * level, with level in -levels..levels - 1; the scale may be negative. */
export class SymmetricFit {
  static readonly #TRIALS = 19;
  static readonly #FIRST_STRETCH = -0.9;
  static readonly #STRETCH_STEP = 0.1;

  scale = 0;
  readonly #count: number;
  readonly #levels: number;

  constructor(count: number, levels: number) {
    this.#count = count;
    this.#levels = levels;
  }

  /** Stores the best fit in `scale`; false if a value is not finite. */
  search(values: Float32Array, from: number): boolean {
    this.scale = 0;
    let extreme = 0;
    let poisoned = 0;
    for (let index = 0; index < this.#count; index++) {
      const value = values[from + index];
      // NaN and infinity times zero are NaN, and a sum with NaN stays NaN.
      poisoned += value * 0;
      if (Math.abs(value) > Math.abs(extreme)) extreme = value;
    }
    if (poisoned !== 0) return false;
    if (Math.abs(extreme) < TINY) return true;

    let most = Number.NEGATIVE_INFINITY;
    for (let trial = 0; trial < SymmetricFit.#TRIALS; trial++) {
      // The extreme value is given the negative level that has no positive counterpart.
      const stretched = this.#levels + SymmetricFit.#FIRST_STRETCH + SymmetricFit.#STRETCH_STEP * trial;
      const inverse = -stretched / extreme;
      let mixed = 0;
      let squares = 0;
      for (let index = 0; index < this.#count; index++) {
        const value = values[from + index];
        const level = Math.max(-this.#levels, Math.min(this.#levels - 1, Math.round(value * inverse)));
        const weighted = value * value * level;
        mixed += weighted * value;
        squares += weighted * level;
      }
      // The share of the weighted sum of squares that a fit explains: more explained is less error.
      const explained = squares > 0 ? (mixed * mixed) / squares : 0;
      if (squares > 0 && explained > most) {
        most = explained;
        this.scale = mixed / squares;
      }
    }
    return true;
  }
}
