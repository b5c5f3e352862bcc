// The operations on individual rows: a function over matrices for each, and its entry in the table.

import type { EmbedOperation, RmsNormOperation, RopeOperation } from "../../graph/operation.js";
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
  { groupWidth, epsilon }: RmsNormOperation,
  input: Matrix,
  weight: Float32Array,
  out: Matrix,
): void {
  for (let row = 0; row < input.rows; row++) {
    for (let group = 0; group < input.width; group += groupWidth) {
      const from = input.offset + row * input.stride + group;
      const to = out.offset + row * out.stride + group;
      let squares = 0;
      for (let k = 0; k < groupWidth; k++) squares += input.data[from + k] ** 2;
      const inverse = 1 / Math.sqrt(squares / groupWidth + epsilon);
      for (let k = 0; k < groupWidth; k++) out.data[to + k] = input.data[from + k] * inverse * weight[k];
    }
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
  { heads, headWidth, rotaryWidth, style }: RopeOperation,
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
      const from = input.offset + row * input.stride + head * headWidth;
      const to = out.offset + row * out.stride + head * headWidth;
      for (let pair = 0; pair < pairs; pair++) {
        const left = input.data[from + pair * step];
        const right = input.data[from + pair * step + partner];
        out.data[to + pair * step] = left * cosines[pair] - right * sines[pair];
        out.data[to + pair * step + partner] = left * sines[pair] + right * cosines[pair];
      }
      for (let k = rotaryWidth; k < headWidth; k++) out.data[to + k] = input.data[from + k];
    }
  }
}

/** Computes activation(gate) × up. */
export function glu(activate: (x: number) => number, gate: Matrix, up: Matrix, out: Matrix): void {
  forEachElement(
    out,
    (row, k) => activate(gate.data[gate.offset + row * gate.stride + k]) * up.data[up.offset + row * up.stride + k],
  );
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
  "rms-norm": (operation, { weight, value }) =>
    rmsNorm(operation, value(operation.input), weight(operation.weight).values, value(operation.out)),
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
