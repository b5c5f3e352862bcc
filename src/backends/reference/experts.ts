// Mixtures of experts: the router, the matmuls with the experts that it chose, and their sum. The same matmuls serve the
// heads of latent attention, whose matrices are chosen by the head instead of the router.

import type { GroupedMatmulOperation, RouteExpertsOperation } from "../../graph/operation.js";
import type { SomeKernels } from "./kernel.js";
import { fourColumns } from "./matmul.js";
import type { Matrix } from "./matrix.js";

/** The sum of weights is not taken below this, the smallest normal number of f16. */
const SMALLEST_SUM = 2 ** -14;

/** Probabilities of experts from their logits. */
function probabilities(gating: RouteExpertsOperation["gating"], logits: Float64Array): Float64Array {
  switch (gating) {
    case "softmax":
      return softmax(logits);
    case "sigmoid":
      return logits.map(sigmoid);
    case "softmax-selected":
    case "sigmoid-selected":
      return logits;
    case "sqrt-softplus":
      return logits.map((logit) => Math.sqrt(Math.max(logit, 0) + Math.log1p(Math.exp(-Math.abs(logit)))));
    default:
      return gating satisfies never;
  }
}

function sigmoid(logit: number): number {
  return 1 / (1 + Math.exp(-logit));
}

function softmax(logits: Float64Array): Float64Array {
  const highest = logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY);
  const powers = logits.map((logit) => Math.exp(logit - highest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** Indices of the largest scores, largest first; equal ones by rising index. */
function largest(scores: ArrayLike<number>, count: number): number[] {
  return Array.from(scores, (_, index) => index)
    .toSorted((left, right) => scores[right] - scores[left] || left - right)
    .slice(0, count);
}

/** Replaces the scores of all but the best groups by −∞. */
function keepBestGroups(scores: Float64Array, groups: number, groupsUsed: number): Float64Array {
  const size = scores.length / groups;
  const best = (group: number): number => {
    const members = scores.slice(group * size, (group + 1) * size);
    return largest(members, 2).reduce((sum, index) => sum + members[index], 0);
  };
  const kept = new Set(
    largest(
      Array.from({ length: groups }, (_, group) => best(group)),
      groupsUsed,
    ),
  );
  return scores.map((score, index) => (kept.has(Math.floor(index / size)) ? score : Number.NEGATIVE_INFINITY));
}

/** Chooses and weighs the experts of one row. */
function chooseExperts(
  { used, gating, groups = 1, groupsUsed = groups, renormalize, scale = 1 }: RouteExpertsOperation,
  logits: Float64Array,
  bias: Float32Array | undefined,
): { readonly chosen: readonly number[]; readonly weights: readonly number[] } {
  const probable = probabilities(gating, logits);
  const scores = probable.map((probability, expert) => probability + (bias?.[expert] ?? 0));
  const chosen = largest(groups > 1 ? keepBestGroups(scores, groups, groupsUsed) : scores, used);
  let weights = chosen.map((expert) => probable[expert]);
  if (gating === "softmax-selected") weights = Array.from(softmax(Float64Array.from(weights)));
  if (gating === "sigmoid-selected") weights = weights.map(sigmoid);
  if (renormalize) {
    const total = Math.max(
      weights.reduce((sum, weight) => sum + weight, 0),
      SMALLEST_SUM,
    );
    weights = weights.map((weight) => weight / total);
  }
  return { chosen, weights: weights.map((weight) => weight * scale) };
}

/** Routes each row to its experts. */
export function routeExperts(
  operation: RouteExpertsOperation,
  input: Matrix,
  bias: Float32Array | undefined,
  out: Matrix,
): void {
  for (let row = 0; row < input.rows; row++) {
    const from = input.offset + row * input.stride;
    const logits = Float64Array.from(input.data.subarray(from, from + input.width));
    const { chosen, weights } = chooseExperts(operation, logits, bias);
    const to = out.offset + row * out.stride;
    out.data.set(chosen, to);
    out.data.set(weights, to + operation.used);
  }
}

interface GroupedWeights {
  readonly values: Float32Array;
  readonly rowLength: number;
  readonly scale: Float32Array | undefined;
  readonly bias: Float32Array | undefined;
}

/** Multiplies the slots of each row by their matrices. */
export function groupedMatmul(
  { slots, matrixRows, inputStride, firstOutput, outputs, weighted }: GroupedMatmulOperation,
  input: Matrix,
  routing: Matrix | undefined,
  { values, rowLength, scale, bias }: GroupedWeights,
  out: Matrix,
): void {
  for (let row = 0; row < input.rows; row++) {
    const routed = routing === undefined ? 0 : routing.offset + row * routing.stride;
    for (let slot = 0; slot < slots; slot++) {
      const matrix = routing === undefined ? slot : routing.data[routed + slot];
      const factor = weighted && routing !== undefined ? routing.data[routed + slots + slot] : 1;
      const from = input.offset + row * input.stride + slot * inputStride;
      const to = out.offset + row * out.stride + slot * outputs;
      const first = matrix * matrixRows + firstOutput;
      const matrixScale = scale?.[matrix] ?? 1;
      const last = (first + outputs - 1) * rowLength;
      for (let column = 0; column < outputs; column += 4) {
        const sums = fourColumns(input.data, values, from, (first + column) * rowLength, last, rowLength);
        for (let index = column; index < Math.min(column + 4, outputs); index++)
          out.data[to + index] = (sums[index - column] * matrixScale + (bias?.[first + index] ?? 0)) * factor;
      }
    }
  }
}

/** Adds up the slots of each row. */
export function sumSlots(slots: number, input: Matrix, out: Matrix): void {
  for (let row = 0; row < out.rows; row++) {
    for (let column = 0; column < out.width; column++) {
      let sum = 0;
      for (let slot = 0; slot < slots; slot++)
        sum += input.data[input.offset + row * input.stride + slot * out.width + column];
      out.data[out.offset + row * out.stride + column] = sum;
    }
  }
}

/** The kernels of mixtures of experts. */
export const EXPERT_KERNELS = {
  "route-experts": (operation, { optional, value }) =>
    routeExperts(operation, value(operation.input), optional(operation.bias), value(operation.out)),
  "grouped-matmul": (operation, { weight, optional, value }) => {
    const { values, rowLength } = weight(operation.weight);
    groupedMatmul(
      operation,
      value(operation.input),
      operation.routing === undefined ? undefined : value(operation.routing),
      {
        values,
        rowLength,
        scale: optional(operation.scale),
        bias: optional(operation.bias),
      },
      value(operation.out),
    );
  },
  "sum-slots": ({ input, slots, out }, { value }) => sumSlots(slots, value(input), value(out)),
} satisfies SomeKernels;
