// How a matmul is computed, by its batch size and by the type of its weights:
//   gemv        1 to 8 rows at a time, weights read once, inputs quantized to 8 bits; any number of rows in deterministic
//               mode, which must give a row the same bits in every batch
//   gemv-float  the same with f32 inputs, for plain floats
//   gemm        larger batches: f16 inputs on the matrix units, weights dequantized on the way
//   int8-gemm   the same with inputs quantized to 8 bits, on cards and for types where products of bytes take less time
//   wide-gemm   gemm by the wide products of some cards, whose inputs lie in another order
//   gemm-float  the same with f32 inputs and f32 arithmetic, for the logits of routers with plain floats in very large
//               batches, and for F32 weights of models with recurrent layers (if they have few rows, in very large
//               batches only)
//   blas        very large batches: weights dequantized to f16 in memory first, then a matmul of the BLAS library
// Plain floats stay with gemv-float up to medium batches: their inputs would lose bits as f16.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";

/** Rows that one GEMV launch computes without reading weights twice. */
export const MAX_SMALL_BATCH = 8;
const MAX_MEDIUM_BATCH = 32;
/** From here on dequantizing to memory costs less time than the BLAS library saves. */
export const MIN_BLAS_BATCH = 384;
/** Rows of F32 weights, up to which a tile of results would take longer than reading the weights for every few tokens. */
const MAX_GATE_ROWS = 256;
/** A larger matrix would need more scratch memory than its matmul is worth. */
const MAX_UNPACKED_BYTES = 512 << 20;

/** Batch sizes that a plan is lowered for: up to 8 rows, up to 32, fewer than the BLAS library is used for, more. */
export type BatchClass = "small" | "medium" | "large" | "huge";
export type MatmulMethod = "gemv" | "gemv-float" | "gemm" | "int8-gemm" | "wide-gemm" | "gemm-float" | "blas";

/** Plain floats by the id of their type: F32, F16, BF16. */
const PLAIN_TYPES: ReadonlySet<number> = new Set([0, 1, 30]);
/** Weights of the blocks that the device reads. */
const BLOCK_WEIGHTS = 32;

/** Whether weights are plain floats, which kernels read element by element. */
export function isPlain({ layout }: TensorDescriptor): boolean {
  return PLAIN_TYPES.has(layout.id);
}

/** The class of a batch of this many rows. */
export function batchClass(rows: number): BatchClass {
  if (rows <= MAX_SMALL_BATCH) return "small";
  if (rows <= MAX_MEDIUM_BATCH) return "medium";
  return rows < MIN_BLAS_BATCH ? "large" : "huge";
}

export interface MethodOptions {
  readonly deterministic: boolean;
  /** Whether there is a BLAS library to use. */
  readonly blas: boolean;
  /** Whether the results are the logits of a router, which f16 would confuse. Absent: no. */
  readonly router?: boolean;
  /** Whether F32 weights are multiplied as they are: recurrent states carry what f16 loses from token to token. Absent: no. */
  readonly exact?: boolean;
  /** Whether the device has the wide products of kernels/matmul/wide-gemm.hip for this weight. Absent: no. */
  readonly wide?: boolean;
  /** Whether this batch takes products of bytes with this weight (int8-gemm.ts). Absent: no. */
  readonly int8?: boolean;
}

/** Whether a matmul with this weight keeps the precision of f32 in every batch. */
export function keepsPrecision({ layout }: TensorDescriptor, exact: boolean): boolean {
  return exact && layout.name === "F32";
}

/** How a matmul with this weight is computed for a batch of this class. */
export function matmulMethod(
  weight: TensorDescriptor,
  batch: BatchClass,
  { deterministic, blas, router = false, exact = false, wide = false, int8 = false }: MethodOptions,
): MatmulMethod {
  const plain = isPlain(weight);
  const gemv = plain ? "gemv-float" : "gemv";
  // Matrix units take the width in whole blocks; only plain floats can have another.
  if (deterministic || batch === "small" || weight.shape[0] % BLOCK_WEIGHTS !== 0) return gemv;
  if (plain && batch === "medium") return gemv;
  const isExact = router ? plain : keepsPrecision(weight, exact);
  // A router has so few rows that tiles of its results would leave most of a device idle, and so have the gates of states.
  if (isExact) return batch === "huge" || !(router || weight.shape[1] <= MAX_GATE_ROWS) ? "gemm-float" : gemv;
  if (batch === "huge" && blas && unpackedBytes(weight) <= MAX_UNPACKED_BYTES) return "blas";
  if (int8) return "int8-gemm";
  return wide && !plain ? "wide-gemm" : "gemm";
}

/** Size of a weight as f16. */
export function unpackedBytes({ elements }: TensorDescriptor): number {
  return elements * 2;
}

/** Memory for the largest of these weights as f16 that the BLAS library may be given. */
export function largestUnpackedBytes(weights: readonly TensorDescriptor[]): number {
  return weights
    .map(unpackedBytes)
    .filter((sizeBytes) => sizeBytes <= MAX_UNPACKED_BYTES)
    .reduce((most, sizeBytes) => Math.max(most, sizeBytes), 0);
}
