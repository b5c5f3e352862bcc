// The operations on individual rows: a function over matrices for each, and its entry in the table.

import type {
  ConcatHeadsOperation,
  EmbedOperation,
  HeadColumnsOperation,
  RmsNormOperation,
  RopeOperation,
} from "../../graph/operation.js";
import type { RopeTable } from "../../graph/program.js";
import { ropeAngles } from "../../graph/rope-angles.js";
import type { SomeKernels } from "./kernel.js";
import type { Matrix } from "./matrix.js";

/** Activations that share one scale when they are quantized to 8 bits. */
const QUANTIZE_BLOCK = 32;
const QUANTIZE_LIMIT = 127;

/** Copies the embedding rows of tokens, scaled. */
export function embed({ scale = 1 }: EmbedOperation, tokens: Int32Array, table: Float32Array, out: Matrix): void {
  for (const [row, token] of tokens.entries()) {
    const start = out.offset + row * out.stride;
    out.data.set(table.subarray(token * out.width, (token + 1) * out.width), start);
    if (scale !== 1) for (let k = start; k < start + out.width; k++) out.data[k] *= scale;
  }
}

/** `rows[i]` is the row of `input` that becomes row i. */
function selectRows(rows: readonly number[], input: Matrix, out: Matrix): void {
  for (const [index, row] of rows.entries()) {
    const from = input.offset + row * input.stride;
    out.data.set(input.data.subarray(from, from + input.width), out.offset + index * out.stride);
  }
}

/** Normalizes each group of columns by its root mean square. */
export function rmsNorm(
  { groupWidth, rowWeights = false, epsilon }: RmsNormOperation,
  input: Matrix,
  weight: Float32Array | undefined,
  out: Matrix,
): void {
  for (let row = 0; row < input.rows; row++) {
    for (let group = 0; group < input.width; group += groupWidth) {
      const from = input.offset + row * input.stride + group;
      const to = out.offset + row * out.stride + group;
      let squares = 0;
      for (let k = 0; k < groupWidth; k++) squares += input.data[from + k] ** 2;
      const inverse = 1 / Math.sqrt(squares / groupWidth + epsilon);
      const first = rowWeights ? group : 0;
      for (let k = 0; k < groupWidth; k++)
        out.data[to + k] = input.data[from + k] * inverse * (weight?.[first + k] ?? 1);
    }
  }
}

/** Normalizes each row by its mean and standard deviation. */
export function layerNorm(
  epsilon: number,
  input: Matrix,
  weight: Float32Array,
  bias: Float32Array | undefined,
  out: Matrix,
): void {
  const { width } = input;
  for (let row = 0; row < input.rows; row++) {
    const values = input.data.subarray(input.offset + row * input.stride, input.offset + row * input.stride + width);
    const mean = values.reduce((sum, value) => sum + value, 0) / width;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / width;
    const inverse = 1 / Math.sqrt(variance + epsilon);
    const to = out.offset + row * out.stride;
    for (let k = 0; k < width; k++) out.data[to + k] = (values[k] - mean) * inverse * weight[k] + (bias?.[k] ?? 0);
  }
}

/**
 * Quantizes symmetrically to 8 bits: scale = largest magnitude ÷ 127 in f32, values to the nearest step, halves to
 * even.
 */
export function quantizeActivations(input: Matrix, out: Matrix): void {
  for (let row = 0; row < input.rows; row++) {
    const from = input.offset + row * input.stride;
    const to = out.offset + row * out.stride;
    for (let start = 0; start < input.width; start += QUANTIZE_BLOCK) {
      const end = Math.min(start + QUANTIZE_BLOCK, input.width);
      let largest = 0;
      for (let k = start; k < end; k++) largest = Math.max(largest, Math.abs(input.data[from + k]));
      const scale = Math.fround(largest / QUANTIZE_LIMIT);
      for (let k = start; k < end; k++) {
        out.data[to + k] = scale === 0 ? 0 : roundHalfToEven(input.data[from + k] / scale) * scale;
      }
    }
  }
}

function roundHalfToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** Rotates pairs of columns of each head by the angles of the row's position. */
export function rope(
  { heads, headWidth, rotaryWidth, firstColumn = 0, style }: RopeOperation,
  table: RopeTable,
  factors: Float32Array | undefined,
  positions: Int32Array,
  input: Matrix,
  out: Matrix,
): void {
  const pairs = rotaryWidth / 2;
  const step = style === "adjacent" ? 2 : 1;
  const partner = style === "adjacent" ? 1 : pairs;
  const cosines = new Float64Array(pairs);
  const sines = new Float64Array(pairs);
  for (let row = 0; row < input.rows; row++) {
    ropeAngles(table, factors, positions[row], cosines, sines);
    for (let head = 0; head < heads; head++) {
      const headFrom = input.offset + row * input.stride + head * headWidth;
      const headTo = out.offset + row * out.stride + head * headWidth;
      out.data.set(input.data.subarray(headFrom, headFrom + headWidth), headTo);
      const [from, to] = [headFrom + firstColumn, headTo + firstColumn];
      for (let pair = 0; pair < pairs; pair++) {
        const left = input.data[from + pair * step];
        const right = input.data[from + pair * step + partner];
        out.data[to + pair * step] = left * cosines[pair] - right * sines[pair];
        out.data[to + pair * step + partner] = left * sines[pair] + right * cosines[pair];
      }
    }
  }
}

/** Computes activation(gate) × up; a gate of one column is that of the whole row. */
export function glu(activate: (gate: number, up: number) => number, gate: Matrix, up: Matrix, out: Matrix): void {
  const gateStep = gate.width === 1 ? 0 : 1;
  forEachElement(out, (row, k) =>
    activate(gate.data[gate.offset + row * gate.stride + k * gateStep], up.data[up.offset + row * up.stride + k]),
  );
}

/** For each head, columns of `left` followed by columns of `right`. */
export function concatHeads(
  { heads, leftWidth, rightWidth, rightStride, rightOffset }: ConcatHeadsOperation,
  left: Matrix,
  right: Matrix,
  out: Matrix,
): void {
  for (let row = 0; row < out.rows; row++) {
    for (let head = 0; head < heads; head++) {
      const to = out.offset + row * out.stride + head * (leftWidth + rightWidth);
      const fromLeft = left.offset + row * left.stride + head * leftWidth;
      const fromRight = right.offset + row * right.stride + head * rightStride + rightOffset;
      out.data.set(left.data.subarray(fromLeft, fromLeft + leftWidth), to);
      out.data.set(right.data.subarray(fromRight, fromRight + rightWidth), to + leftWidth);
    }
  }
}

/** Some columns of each head. */
function headColumns({ heads, offset, width }: HeadColumnsOperation, input: Matrix, out: Matrix): void {
  const headWidth = input.width / heads;
  for (let row = 0; row < out.rows; row++) {
    for (let head = 0; head < heads; head++) {
      const from = input.offset + row * input.stride + head * headWidth + offset;
      out.data.set(input.data.subarray(from, from + width), out.offset + row * out.stride + head * width);
    }
  }
}

/** Adds two matrices. */
export function add(left: Matrix, right: Matrix, out: Matrix): void {
  forEachElement(
    out,
    (row, k) => left.data[left.offset + row * left.stride + k] + right.data[right.offset + row * right.stride + k],
  );
}

function forEachElement(out: Matrix, compute: (row: number, column: number) => number): void {
  for (let row = 0; row < out.rows; row++) {
    const start = out.offset + row * out.stride;
    for (let column = 0; column < out.width; column++) out.data[start + column] = compute(row, column);
  }
}

/** The kernels that work on each row separately. */
export const ROW_KERNELS = {
  embed: (operation, { step, weight, value }) =>
    embed(operation, step.tokens, weight(operation.table).values, value(operation.out)),
  "rms-norm": (operation, { optional, value }) =>
    rmsNorm(operation, value(operation.input), optional(operation.weight), value(operation.out)),
  "layer-norm": ({ input, weight: id, bias, epsilon, out }, { weight, optional, value }) =>
    layerNorm(epsilon, value(input), weight(id).values, optional(bias), value(out)),
  scale: ({ input, factor = 1, weight, out }, { optional, value }) => {
    const source = value(input);
    const by = factor * (optional(weight)?.[0] ?? 1);
    forEachElement(value(out), (row, k) => source.data[source.offset + row * source.stride + k] * by);
  },
  "concat-heads": (operation, { value }) =>
    concatHeads(operation, value(operation.left), value(operation.right), value(operation.out)),
  "head-columns": (operation, { value }) => headColumns(operation, value(operation.input), value(operation.out)),
  "quantize-activations": ({ input, out }, { value }) => quantizeActivations(value(input), value(out)),
  rope: (operation, { program, step, optional, value }) =>
    rope(
      operation,
      program.ropes[operation.rope],
      optional(operation.factors),
      step.positions,
      value(operation.input),
      value(operation.out),
    ),
  glu: ({ activation, gate, up, out }, { activations, value }) =>
    glu(activations[activation], value(gate), value(up), value(out)),
  add: ({ left, right, out }, { value }) => add(value(left), value(right), value(out)),
  "select-rows": ({ rows, input, out }, { selections, value }) =>
    selectRows(selections[rows], value(input), value(out)),
} satisfies SomeKernels;
