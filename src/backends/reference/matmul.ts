// out = input · weightᵀ, with sums in double precision. Every sum adds its terms from first to last, so a row's result
// is bit-exact regardless of batching; only loads are shared. The two inner functions take only arrays and numbers,
// because the JIT compiles those to tight loops.

import type { SomeKernels } from "./kernel.js";
import { type Matrix, softCapped } from "./matrix.js";

interface Weights {
  readonly values: Float32Array;
  readonly rowLength: number;
}

/** Applied to each sum before it is stored: × scale, + bias, then the soft-cap. */
interface Epilogue {
  readonly scale: number;
  readonly bias: Float32Array | undefined;
  readonly softCap: number | undefined;
}

/** Sums of one pass: four tokens by two columns, or one token by four columns; the next pass overwrites them. */
const sums = new Float64Array(8);

/** Multiplies rows by a weight matrix and applies the epilogue. */
export function matmul(input: Matrix, weight: Weights, epilogue: Epilogue, out: Matrix): void {
  const { data, stride, rows } = input;
  const { values, rowLength } = weight;
  const last = (out.width - 1) * rowLength;
  let row = 0;
  for (; row + 4 <= rows; row += 4) {
    const first = input.offset + row * stride;
    for (let column = 0; column < out.width; column += 2) {
      const left = column * rowLength;
      fourTokens(data, values, first, stride, left, Math.min(left + rowLength, last), rowLength);
      store(epilogue, out, row, column, 4, 2);
    }
  }
  for (; row < rows; row++) {
    const first = input.offset + row * stride;
    for (let column = 0; column < out.width; column += 4) {
      fourColumns(data, values, first, column * rowLength, last, rowLength);
      store(epilogue, out, row, column, 1, 4);
    }
  }
}

/** Stores a pass of sums; columns past the last one repeat the last weight row and are dropped. */
function store(
  { scale, bias, softCap }: Epilogue,
  out: Matrix,
  row: number,
  column: number,
  tokens: number,
  columns: number,
): void {
  const stored = Math.min(columns, out.width - column);
  for (let token = 0; token < tokens; token++) {
    const target = out.offset + (row + token) * out.stride + column;
    for (let k = 0; k < stored; k++) {
      const sum = sums[token * columns + k] * scale + (bias === undefined ? 0 : bias[column + k]);
      out.data[target + k] = softCapped(sum, softCap);
    }
  }
}

function fourTokens(
  data: Float32Array,
  values: Float32Array,
  first: number,
  stride: number,
  left: number,
  right: number,
  length: number,
): void {
  const second = first + stride;
  const third = second + stride;
  const fourth = third + stride;
  let left0 = 0;
  let left1 = 0;
  let left2 = 0;
  let left3 = 0;
  let right0 = 0;
  let right1 = 0;
  let right2 = 0;
  let right3 = 0;
  for (let k = 0; k < length; k++) {
    const leftWeight = values[left + k];
    const rightWeight = values[right + k];
    const x0 = data[first + k];
    const x1 = data[second + k];
    const x2 = data[third + k];
    const x3 = data[fourth + k];
    left0 += leftWeight * x0;
    left1 += leftWeight * x1;
    left2 += leftWeight * x2;
    left3 += leftWeight * x3;
    right0 += rightWeight * x0;
    right1 += rightWeight * x1;
    right2 += rightWeight * x2;
    right3 += rightWeight * x3;
  }
  sums[0] = left0;
  sums[1] = right0;
  sums[2] = left1;
  sums[3] = right1;
  sums[4] = left2;
  sums[5] = right2;
  sums[6] = left3;
  sums[7] = right3;
}

/**
 * Products of the inputs from `start` on with four rows of weights, the first of which begins at `first`; rows past the
 * last one, which begins at `last`, repeat it. The sums are overwritten by the next call.
 */
export function fourColumns(
  data: Float32Array,
  values: Float32Array,
  start: number,
  first: number,
  last: number,
  length: number,
): Float64Array {
  const second = Math.min(first + length, last);
  const third = Math.min(first + 2 * length, last);
  const fourth = Math.min(first + 3 * length, last);
  let sum0 = 0;
  let sum1 = 0;
  let sum2 = 0;
  let sum3 = 0;
  for (let k = 0; k < length; k++) {
    const x = data[start + k];
    sum0 += values[first + k] * x;
    sum1 += values[second + k] * x;
    sum2 += values[third + k] * x;
    sum3 += values[fourth + k] * x;
  }
  sums[0] = sum0;
  sums[1] = sum1;
  sums[2] = sum2;
  sums[3] = sum3;
  return sums;
}

/** The matmul kernel. */
export const MATMUL_KERNELS = {
  matmul: (operation, { weight, optional, value }) =>
    matmul(
      value(operation.input),
      weight(operation.weight),
      {
        scale: optional(operation.scale)?.[0] ?? 1,
        bias: optional(operation.bias),
        softCap: operation.softCap,
      },
      value(operation.out),
    ),
} satisfies SomeKernels;
