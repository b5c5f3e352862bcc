// The embedding of a text: the mean of the last layer's states over all its tokens, scaled to length 1.

import { BackendError } from "../errors.js";
import type { FiniteRow } from "../plan/output-row.js";
import type { RowSink } from "./row-job.js";

/** Sums hidden states as they arrive. */
export class EmbeddingSink implements RowSink<Float32Array> {
  readonly want = { want: { kind: "hidden" } } as const;
  /** Double precision, because thousands of states are added up. */
  #sums: Float64Array | undefined;

  add(row: FiniteRow): void {
    if (row.kind !== "hidden") throw new BackendError("BACKEND_STEP", "[embed] the backend returned no hidden state");
    const sums = (this.#sums ??= new Float64Array(row.values.length));
    for (let column = 0; column < sums.length; column++) sums[column] += row.values[column];
  }

  reset(): void {
    this.#sums = undefined;
  }

  /** The mean and the sum have the same direction, so the sum is normalised. */
  finish(): Float32Array {
    const sums = this.#sums ?? new Float64Array(0);
    let squares = 0;
    for (const value of sums) squares += value * value;
    const length = Math.sqrt(squares);
    return Float32Array.from(sums, (value) => (length > 0 ? value / length : 0));
  }
}
