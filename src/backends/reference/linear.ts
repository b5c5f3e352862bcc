// out = input · weightᵀ, with sums in double precision. Tiles share loads; every sum still runs over its own products
// from first to last, so a row's result is the same to the bit whatever else is in the step.

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

/** One token, columns from `firstColumn` on, four side by side so that no addition waits for another. */
function oneRow(input: Matrix, weight: Weights, { scale, bias }: Epilogue, out: Matrix, row: number, firstColumn: number): void {
  const { values, rowLength } = weight;
  const { data } = input;
  const start = input.offset + row * input.stride;
  const outStart = out.offset + row * out.stride;
  const store = (column: number, sum: number): void => {
    out.data[outStart + column] = sum * scale + (bias === undefined ? 0 : bias[column]);
  };
  let column = firstColumn;
  for (; column + 4 <= out.width; column += 4) {
    const first = column * rowLength;
    const second = first + rowLength;
    const third = second + rowLength;
    const fourth = third + rowLength;
    let sum0 = 0;
    let sum1 = 0;
    let sum2 = 0;
    let sum3 = 0;
    for (let k = 0; k < rowLength; k++) {
      const x = data[start + k];
      sum0 += values[first + k] * x;
      sum1 += values[second + k] * x;
      sum2 += values[third + k] * x;
      sum3 += values[fourth + k] * x;
    }
    store(column, sum0);
    store(column + 1, sum1);
    store(column + 2, sum2);
    store(column + 3, sum3);
  }
  for (; column < out.width; column++) {
    let sum = 0;
    for (let k = 0; k < rowLength; k++) sum += values[column * rowLength + k] * data[start + k];
    store(column, sum);
  }
}
