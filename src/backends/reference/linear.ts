// out = input · weightᵀ, with sums in double precision. Tiles of four tokens by two weight rows share their loads; that
// is the only liberty taken with the plain loop, and it changes no result.

import type { Matrix } from "./matrix.js";

const TILE_TOKENS = 4;

export interface Weights {
  readonly values: Float32Array;
  readonly rowLength: number;
}

/** What is done to each sum before it is stored. */
interface Epilogue {
  readonly scale: number;
  readonly bias: Float32Array | undefined;
}

export function linear(input: Matrix, weight: Weights, epilogue: Epilogue, out: Matrix): void {
  let row = 0;
  for (; row + TILE_TOKENS <= input.rows; row += TILE_TOKENS) {
    let column = 0;
    for (; column + 2 <= out.width; column += 2) tile(input, weight, epilogue, out, row, column);
    for (let token = row; token < row + TILE_TOKENS; token++) oneRow(input, weight, epilogue, out, token, column);
  }
  for (; row < input.rows; row++) oneRow(input, weight, epilogue, out, row, 0);
}

function tile(input: Matrix, weight: Weights, { scale, bias }: Epilogue, out: Matrix, row: number, column: number): void {
  const { values, rowLength } = weight;
  const { data, stride } = input;
  const first = input.offset + row * stride;
  const left = column * rowLength;
  const right = left + rowLength;
  let left0 = 0;
  let left1 = 0;
  let left2 = 0;
  let left3 = 0;
  let right0 = 0;
  let right1 = 0;
  let right2 = 0;
  let right3 = 0;
  for (let k = 0; k < rowLength; k++) {
    const leftWeight = values[left + k];
    const rightWeight = values[right + k];
    const x0 = data[first + k];
    const x1 = data[first + stride + k];
    const x2 = data[first + 2 * stride + k];
    const x3 = data[first + 3 * stride + k];
    left0 += leftWeight * x0;
    left1 += leftWeight * x1;
    left2 += leftWeight * x2;
    left3 += leftWeight * x3;
    right0 += rightWeight * x0;
    right1 += rightWeight * x1;
    right2 += rightWeight * x2;
    right3 += rightWeight * x3;
  }
  const leftBias = bias === undefined ? 0 : bias[column];
  const rightBias = bias === undefined ? 0 : bias[column + 1];
  const target = out.offset + row * out.stride + column;
  out.data[target] = left0 * scale + leftBias;
  out.data[target + 1] = right0 * scale + rightBias;
  out.data[target + out.stride] = left1 * scale + leftBias;
  out.data[target + out.stride + 1] = right1 * scale + rightBias;
  out.data[target + 2 * out.stride] = left2 * scale + leftBias;
  out.data[target + 2 * out.stride + 1] = right2 * scale + rightBias;
  out.data[target + 3 * out.stride] = left3 * scale + leftBias;
  out.data[target + 3 * out.stride + 1] = right3 * scale + rightBias;
}

/** One token, columns from `firstColumn` on; four partial sums keep the additions from waiting on one another. */
function oneRow(input: Matrix, weight: Weights, { scale, bias }: Epilogue, out: Matrix, row: number, firstColumn: number): void {
  const { values, rowLength } = weight;
  const { data } = input;
  const start = input.offset + row * input.stride;
  const outStart = out.offset + row * out.stride;
  const whole = rowLength - (rowLength % 4);
  for (let column = firstColumn; column < out.width; column++) {
    const base = column * rowLength;
    let sum0 = 0;
    let sum1 = 0;
    let sum2 = 0;
    let sum3 = 0;
    for (let k = 0; k < whole; k += 4) {
      sum0 += values[base + k] * data[start + k];
      sum1 += values[base + k + 1] * data[start + k + 1];
      sum2 += values[base + k + 2] * data[start + k + 2];
      sum3 += values[base + k + 3] * data[start + k + 3];
    }
    for (let k = whole; k < rowLength; k++) sum0 += values[base + k] * data[start + k];
    out.data[outStart + column] = (sum0 + sum1 + sum2 + sum3) * scale + (bias === undefined ? 0 : bias[column]);
  }
}
