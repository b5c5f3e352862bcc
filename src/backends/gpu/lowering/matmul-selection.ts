// Which way a product is computed, by how many rows it has and what its weights are made of:
//   rows     1 to 8 at a time, weights read once, 8-bit (or f32) inputs; any number in deterministic mode, where a row's
//            bits must not depend on how many others there are
//   tile     more: f16 inputs on the matrix units, weights unpacked on the way
//   library  many: weights unpacked to f16 in memory first, then the vendor's product
// Plain floats stay on the rows way a little longer: their inputs would lose bits as f16.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";

/** Rows that one launch of the rows way computes without reading weights twice. */
export const MOST_FEW_ROWS = 8;
const MOST_SOME_ROWS = 32;
/** From here on unpacking costs less than the library gains. */
export const LEAST_LARGE_ROWS = 384;
/** A larger matrix would want more scratch memory than its product is worth. */
const MOST_UNPACKED_BYTES = 512 << 20;

export type RowsClass = "few" | "some" | "many" | "large";
export type ProductWay = "rounded" | "floats" | "tile" | "library";

/** Plain floats by the id of their type: F32, F16, BF16. */
const PLAIN_TYPES: ReadonlySet<number> = new Set([0, 1, 30]);
/** Of the pieces in which the device reads weights. */
const PIECE_WEIGHTS = 32;

export function isPlain({ layout }: TensorDescriptor): boolean {
  return PLAIN_TYPES.has(layout.id);
}

export function rowsClass(rows: number): RowsClass {
  if (rows <= MOST_FEW_ROWS) return "few";
  if (rows <= MOST_SOME_ROWS) return "some";
  return rows < LEAST_LARGE_ROWS ? "many" : "large";
}

export interface ChoiceFacts {
  readonly deterministic: boolean;
  readonly library: boolean;
}

export function productWay(
  weight: TensorDescriptor,
  rows: RowsClass,
  { deterministic, library }: ChoiceFacts,
): ProductWay {
  const plain = isPlain(weight);
  const few = plain ? "floats" : "rounded";
  // Matrix units take the width in whole pieces; only plain floats can have another.
  if (deterministic || rows === "few" || weight.shape[0] % PIECE_WEIGHTS !== 0) return few;
  if (plain && rows === "some") return few;
  return rows === "large" && library && unpackedBytes(weight) <= MOST_UNPACKED_BYTES ? "library" : "tile";
}

/** As f16. */
export function unpackedBytes({ elements }: TensorDescriptor): number {
  return elements * 2;
}

/** Way of the largest matrix that the library may be given, for the memory it is unpacked to. */
export function largestUnpackedBytes(weights: readonly TensorDescriptor[]): number {
  return weights
    .map(unpackedBytes)
    .filter((sizeBytes) => sizeBytes <= MOST_UNPACKED_BYTES)
    .reduce((most, sizeBytes) => Math.max(most, sizeBytes), 0);
}
