// out = input · weightᵀ, with sums in double precision. Four tokens share each pass over a weight row; that is the
// only liberty taken with the plain loop, and it changes no result.

import type { Matrix } from "./matrix.js";

export interface Weights {
  readonly values: Float32Array;
  readonly rowLength: number;
}

export function linear(input: Matrix, weight: Weights, scale: number, bias: Float32Array | undefined, out: Matrix): void {
  let row = 0;
  for (; row + 4 <= input.rows; row += 4) fourRows(input, weight, scale, bias, out, row);
  for (; row < input.rows; row++) oneRow(input, weight, scale, bias, out, row);
}

function fourRows(input: Matrix, weight: Weights, scale: number, bias: Float32Array | undefined, out: Matrix, row: number): void {
  const { values, rowLength } = weight;
  const { data } = input;
  const first = input.offset + row * input.stride;
  const second = first + input.stride;
  const third = second + input.stride;
  const fourth = third + input.stride;
  const outStart = out.offset + row * out.stride;
  for (let column = 0; column < out.width; column++) {
    const base = column * rowLength;
    let sum0 = 0;
    let sum1 = 0;
    let sum2 = 0;
    let sum3 = 0;
    for (let k = 0; k < rowLength; k++) {
      const w = values[base + k];
      sum0 += w * data[first + k];
      sum1 += w * data[second + k];
      sum2 += w * data[third + k];
      sum3 += w * data[fourth + k];
    }
    const added = bias === undefined ? 0 : bias[column];
    out.data[outStart + column] = sum0 * scale + added;
    out.data[outStart + out.stride + column] = sum1 * scale + added;
    out.data[outStart + 2 * out.stride + column] = sum2 * scale + added;
    out.data[outStart + 3 * out.stride + column] = sum3 * scale + added;
  }
}

/** Four partial sums keep the additions from waiting on one another. */
function oneRow(input: Matrix, weight: Weights, scale: number, bias: Float32Array | undefined, out: Matrix, row: number): void {
  const { values, rowLength } = weight;
  const { data } = input;
  const start = input.offset + row * input.stride;
  const outStart = out.offset + row * out.stride;
  const whole = rowLength - (rowLength % 4);
  for (let column = 0; column < out.width; column++) {
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
