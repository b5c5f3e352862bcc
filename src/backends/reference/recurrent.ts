// The operations with recurrent states, one sequence and one token at a time. A sequence's states are copied from its
// slot, changed token by token, and copied to the slots that the step names, so that how tokens are divided into steps
// does not change a bit.

import type { CausalConvOperation, DeltaNetOperation, SsmScanOperation } from "../../graph/operation.js";
import { BackendError } from "../../errors.js";
import type { StepContext, SomeKernels } from "./kernel.js";
import type { Matrix } from "./matrix.js";

/** Calls `visit` for each token of the step with its sequence's state after the token before it, which it changes. */
function forEachToken(
  { step, cache }: StepContext,
  id: number,
  visit: (row: number, state: Float32Array) => void,
): void {
  const { sequenceOffsets, stateReads, stateWrites } = step;
  const { slots, elements } = cache.states[id];
  if (stateReads === undefined || stateWrites === undefined)
    throw new BackendError("BACKEND_STEP", "[reference] the step names no state slots");
  for (let sequence = 0; sequence + 1 < sequenceOffsets.length; sequence++) {
    const from = stateReads[sequence];
    const state = from < 0 ? new Float32Array(elements) : slots.slice(from * elements, (from + 1) * elements);
    for (let row = sequenceOffsets[sequence]; row < sequenceOffsets[sequence + 1]; row++) {
      visit(row, state);
      if (stateWrites[row] >= 0) slots.set(state, stateWrites[row] * elements);
    }
  }
}

/** Convolves the columns of each sequence with the inputs before them. */
export function causalConv(
  { state: id, activation }: CausalConvOperation,
  context: StepContext,
  { weight, bias }: { readonly weight: Float32Array; readonly bias: Float32Array | undefined },
  input: Matrix,
  out: Matrix,
): void {
  const width = input.width;
  const taps = (weight.length / width) | 0;
  forEachToken(context, id, (row, state) => {
    const from = input.offset + row * input.stride;
    const to = out.offset + row * out.stride;
    for (let column = 0; column < width; column++) {
      const last = column * taps + taps - 1;
      let sum = (bias?.[column] ?? 0) + weight[last] * input.data[from + column];
      for (let tap = 0; tap < taps - 1; tap++) sum += weight[column * taps + tap] * state[tap * width + column];
      out.data[to + column] = activation === "silu" ? sum / (1 + Math.exp(-sum)) : sum;
    }
    if (taps === 1) return;
    state.copyWithin(0, width);
    state.set(input.data.subarray(from, from + width), (taps - 2) * width);
  });
}

interface DeltaNetInputs {
  readonly input: Matrix;
  readonly alpha: Matrix;
  readonly beta: Matrix;
  readonly decay: Float32Array;
  readonly bias: Float32Array;
}

/** Updates the matrix of each value head by the delta rule and reads it with the query. */
export function deltaNet(
  operation: DeltaNetOperation,
  context: StepContext,
  { input, alpha, beta, decay, bias }: DeltaNetInputs,
  out: Matrix,
): void {
  const { keyHeads, valueHeads, keyHeadOrder, epsilon } = operation;
  // Small integers to the compiler: see matrix.ts.
  const width = operation.headWidth | 0;
  const query = new Float64Array(width);
  const key = new Float64Array(width);
  const difference = new Float64Array(width);
  const sums = new Float64Array(width);
  forEachToken(context, operation.state, (row, state) => {
    const from = input.offset + row * input.stride;
    for (let head = 0; head < valueHeads; head++) {
      const keyHead = keyHeadOrder === "cyclic" ? head % keyHeads : Math.floor(head / (valueHeads / keyHeads));
      normalized(input.data, from + keyHead * width, epsilon, query);
      normalized(input.data, from + (keyHeads + keyHead) * width, epsilon, key);
      const values = from + (2 * keyHeads + head) * width;
      const matrix = state.subarray(head * width * width, (head + 1) * width * width);
      const kept = Math.exp(decay[head] * softplus(alpha.data[alpha.offset + row * alpha.stride + head] + bias[head]));
      const rate = 1 / (1 + Math.exp(-beta.data[beta.offset + row * beta.stride + head]));
      for (let index = 0; index < matrix.length; index++) matrix[index] *= kept;
      weightedRows(matrix, key, sums);
      for (let column = 0; column < width; column++)
        difference[column] = rate * (input.data[values + column] - sums[column]);
      for (let line = 0; line < width; line++)
        for (let column = 0; column < width; column++) matrix[line * width + column] += key[line] * difference[column];
      weightedRows(matrix, query, sums);
      const to = out.offset + row * out.stride + head * width;
      for (let column = 0; column < width; column++) out.data[to + column] = sums[column] / Math.sqrt(width);
    }
  });
}

interface SsmScanInputs {
  readonly input: Matrix;
  readonly step: Matrix;
  readonly decay: Float32Array;
  readonly bias: Float32Array;
  readonly skip: Float32Array;
}

/** Updates the matrix of each head with B and reads it with C. */
export function ssmScan(
  operation: SsmScanOperation,
  context: StepContext,
  { input, step, decay, bias, skip }: SsmScanInputs,
  out: Matrix,
): void {
  const { heads, groups } = operation;
  // Small integers to the compiler: see matrix.ts.
  const headWidth = operation.headWidth | 0;
  const stateWidth = operation.stateWidth | 0;
  const sums = new Float64Array(headWidth);
  forEachToken(context, operation.state, (row, state) => {
    const from = input.offset + row * input.stride;
    for (let head = 0; head < heads; head++) {
      const group = Math.floor(head / (heads / groups));
      const firstB = from + heads * headWidth + group * stateWidth;
      const firstC = firstB + groups * stateWidth;
      const firstX = from + head * headWidth;
      const delta = softplus(step.data[step.offset + row * step.stride + head] + bias[head]);
      const kept = Math.exp(delta * decay[head]);
      sums.fill(0);
      for (let line = 0; line < stateWidth; line++) {
        const start = (head * stateWidth + line) * headWidth;
        const added = input.data[firstB + line] * delta;
        for (let column = 0; column < headWidth; column++) {
          state[start + column] = state[start + column] * kept + added * input.data[firstX + column];
          sums[column] += state[start + column] * input.data[firstC + line];
        }
      }
      const to = out.offset + row * out.stride + head * headWidth;
      for (let column = 0; column < headWidth; column++)
        out.data[to + column] = sums[column] + skip[head] * input.data[firstX + column];
    }
  });
}

/** Copies the row before each one, or the state. */
function previousRow(context: StepContext, id: number, input: Matrix | undefined, out: Matrix): void {
  const { sequenceOffsets, stateReads } = context.step;
  const { slots, elements } = context.cache.states[id];
  for (let sequence = 0; sequence + 1 < sequenceOffsets.length; sequence++) {
    const from = stateReads?.[sequence] ?? -1;
    const state = from < 0 ? new Float32Array(elements) : slots.subarray(from * elements, (from + 1) * elements);
    for (let row = sequenceOffsets[sequence]; row < sequenceOffsets[sequence + 1]; row++) {
      const before = row === sequenceOffsets[sequence] || input === undefined ? undefined : rowOf(input, row - 1);
      out.data.set(before ?? state, out.offset + row * out.stride);
    }
  }
}

function writeState(context: StepContext, id: number, input: Matrix): void {
  const { slots, elements } = context.cache.states[id];
  for (const [row, slot] of (context.step.stateWrites ?? []).entries())
    if (slot >= 0) slots.set(rowOf(input, row), slot * elements);
}

function rowOf({ data, offset, stride, width }: Matrix, row: number): Float32Array {
  return data.subarray(offset + row * stride, offset + row * stride + width);
}

/** ln(1 + eˣ), without overflow. */
function softplus(x: number): number {
  return x > 0 ? x + Math.log1p(Math.exp(-x)) : Math.log1p(Math.exp(x));
}

/** A head divided by its norm, or by epsilon if that is larger. */
function normalized(data: Float32Array, start: number, epsilon: number, out: Float64Array): void {
  let squares = 0;
  for (let k = 0; k < out.length; k++) squares += data[start + k] ** 2;
  const inverse = 1 / Math.max(Math.sqrt(squares), epsilon);
  for (let k = 0; k < out.length; k++) out[k] = data[start + k] * inverse;
}

/** The rows of a square matrix, weighted and added up. */
function weightedRows(matrix: Float32Array, weights: Float64Array, sums: Float64Array): void {
  const width = sums.length;
  sums.fill(0);
  for (let line = 0; line < width; line++)
    for (let column = 0; column < width; column++) sums[column] += weights[line] * matrix[line * width + column];
}

/** The kernels that use recurrent states. */
export const RECURRENT_KERNELS = {
  "causal-conv": (operation, context) => {
    const { weight, optional, value } = context;
    const weights = { weight: weight(operation.weight).values, bias: optional(operation.bias) };
    causalConv(operation, context, weights, value(operation.input), value(operation.out));
  },
  "delta-net": (operation, context) => {
    const { weight, value } = context;
    const inputs = {
      input: value(operation.input),
      alpha: value(operation.alpha),
      beta: value(operation.beta),
      decay: weight(operation.decay).values,
      bias: weight(operation.bias).values,
    };
    deltaNet(operation, context, inputs, value(operation.out));
  },
  "ssm-scan": (operation, context) => {
    const { weight, value } = context;
    const inputs = {
      input: value(operation.input),
      step: value(operation.step),
      decay: weight(operation.decay).values,
      bias: weight(operation.bias).values,
      skip: weight(operation.skip).values,
    };
    ssmScan(operation, context, inputs, value(operation.out));
  },
  "previous-row": ({ state, input, out }, context) =>
    previousRow(context, state, input === undefined ? undefined : context.value(input), context.value(out)),
  "state-write": ({ state, input }, context) => writeState(context, state, context.value(input)),
} satisfies SomeKernels;
