// How far the results of one backend are from those of another: for checks of kernels on a user's machine, and for
// `rocmforge verify`. Each row is measured for itself, so that one wrong row among many right ones counts in full.

import type { OutputRow } from "./contract.js";

/** The largest error among rows. */
export interface RowsError {
  /** Squared error over squared size of the worst row; infinite if a row is not finite or of another kind. */
  readonly error: number;
  readonly row: number;
}

/** Results this small are rounding errors of zero. */
const NEARLY_NOTHING = 1e-30;

/**
 * Compares hidden states or logits. `residuals` has rows that may be part of each result, such as the residual stream:
 * what was added to them is what is measured.
 */
export function largestError(
  found: readonly OutputRow[],
  expected: readonly OutputRow[],
  residuals: (row: number) => readonly Float32Array[] = () => [],
): RowsError {
  let worst: RowsError = { error: 0, row: 0 };
  for (const [row, wanted] of expected.entries()) {
    const error = rowError(valuesOf(found[row]), valuesOf(wanted), residuals(row));
    if (!(error <= worst.error)) worst = { error: Number.isNaN(error) ? Number.POSITIVE_INFINITY : error, row };
  }
  return worst;
}

/** Squared error over squared size; over the size without a residual if that is less. */
export function rowError(
  found: Float32Array | undefined,
  expected: Float32Array | undefined,
  residuals: readonly Float32Array[] = [],
): number {
  // A model may compute NaN from random inputs: that says nothing about a kernel.
  if (expected === undefined) return 0;
  if (found?.length !== expected.length) return Number.POSITIVE_INFINITY;
  let error = 0;
  let size = 0;
  for (let index = 0; index < expected.length; index++) {
    error += (found[index] - expected[index]) ** 2;
    size += expected[index] ** 2;
  }
  const sizes = residuals.map((residual) => distanceSquared(expected, residual));
  const least = Math.min(size, ...sizes.filter((each) => each > NEARLY_NOTHING));
  return least <= NEARLY_NOTHING ? (error <= NEARLY_NOTHING ? 0 : Number.POSITIVE_INFINITY) : error / least;
}

function distanceSquared(left: Float32Array, right: Float32Array): number {
  if (left.length !== right.length) return Number.POSITIVE_INFINITY;
  let sum = 0;
  for (let index = 0; index < left.length; index++) sum += (left[index] - right[index]) ** 2;
  return sum;
}

function valuesOf(row: OutputRow | undefined): Float32Array | undefined {
  if (row?.kind === "hidden") return row.values;
  return row?.kind === "logits" ? row.logits : undefined;
}
