// Writes to the paged cache and attends over it, one token and one head at a time, with the softmax in double
// precision.

import { firstVisible } from "../../graph/cache-groups.js";
import type { AttentionOperation } from "../../graph/operation.js";
import type { StepInput } from "../contract.js";
import type { SomeKernels } from "./kernel.js";
import type { KvStorage } from "./kv-cache.js";
import { type Matrix, softCapped } from "./matrix.js";

/** Calls `visit` with each row's position and its block table of a cache group. */
function forEachRow(
  { blockTables, sequenceOffsets, positions }: StepInput,
  group: number,
  visit: (row: number, table: Int32Array, position: number) => void,
): void {
  const sequences = sequenceOffsets.length - 1;
  // Without tables of their own, all groups have the first one's.
  const first = blockTables.length === sequences ? 0 : group * sequences;
  for (let sequence = 0; sequence < sequences; sequence++) {
    for (let row = sequenceOffsets[sequence]; row < sequenceOffsets[sequence + 1]; row++) {
      visit(row, blockTables[first + sequence], positions[row]);
    }
  }
}

/** Stores keys and values of a step in the cache. */
export function writeKv(
  step: StepInput,
  cache: KvStorage,
  layer: number,
  key: Matrix,
  value: Matrix | undefined,
): void {
  const { blockTokens } = cache;
  const store = (source: Matrix, row: number, target: Float32Array, slot: number): void => {
    const from = source.offset + row * source.stride;
    target.set(source.data.subarray(from, from + source.width), slot * source.width);
    cache.quantize(target.subarray(slot * source.width, (slot + 1) * source.width));
  };
  forEachRow(step, cache.layers[layer].group, (row, table, position) => {
    const slot = table[Math.floor(position / blockTokens)] * blockTokens + (position % blockTokens);
    store(key, row, cache.layers[layer].keys, slot);
    if (value !== undefined) store(value, row, cache.layers[layer].values, slot);
  });
}

interface AttentionInputs {
  readonly step: StepInput;
  readonly cache: KvStorage;
  /** One logit per head, if the operation has attention sinks. */
  readonly sinks: Float32Array | undefined;
}

/** Computes causal attention over the cache, with window, soft-cap and sinks. */
export function attention(
  operation: AttentionOperation,
  { step, cache, sinks }: AttentionInputs,
  query: Matrix,
  out: Matrix,
): void {
  const { heads, kvHeads, layer, softCap, valuesInKeys = false } = operation;
  // Small integers to the compiler: see matrix.ts.
  const keyWidth = operation.keyWidth | 0;
  const valueWidth = operation.valueWidth | 0;
  const { blockTokens } = cache;
  const { keys, keyRow, ...stored } = cache.layers[layer];
  const values = valuesInKeys ? keys : stored.values;
  const valueRow = valuesInKeys ? keyRow : stored.valueRow;
  const valueStep = valuesInKeys ? keyWidth : valueWidth;
  const longest = step.positions.reduce((most, position) => Math.max(most, position), 0) + 1;
  const weights = new Float64Array(longest);
  const slots = new Int32Array(longest);
  const sums = new Float64Array(valueWidth);

  forEachRow(step, stored.group, (row, table, position) => {
    const first = Math.min(position, Math.max(operation.first ?? 0, firstVisible(operation, position))) | 0;
    const scale = operation.scale * temperatureAt(operation, position);
    for (let past = first; past <= position; past++) {
      slots[past] = table[Math.floor(past / blockTokens)] * blockTokens + (past % blockTokens);
    }
    for (let head = 0; head < heads; head++) {
      const kvHead = Math.floor(head / (heads / kvHeads));
      const queryStart = query.offset + row * query.stride + head * keyWidth;
      let highest = sinks === undefined ? Number.NEGATIVE_INFINITY : sinks[head];
      for (let past = first; past <= position; past++) {
        const keyStart = slots[past] * keyRow + kvHead * keyWidth;
        weights[past] = softCapped(dot(query.data, queryStart, keys, keyStart, keyWidth) * scale, softCap);
        if (weights[past] > highest) highest = weights[past];
      }
      let total = sinks === undefined ? 0 : Math.exp(sinks[head] - highest);
      sums.fill(0);
      for (let past = first; past <= position; past++) {
        const weight = Math.exp(weights[past] - highest);
        total += weight;
        addScaled(sums, weight, values, slots[past] * valueRow + kvHead * valueStep);
      }
      const outStart = out.offset + row * out.stride + head * valueWidth;
      for (let k = 0; k < valueWidth; k++) out.data[outStart + k] = sums[k] / total;
    }
  });
}

function temperatureAt(
  { temperature, temperatureLength = 1, temperatureOffset = 0 }: AttentionOperation,
  position: number,
): number {
  if (temperature === undefined) return 1;
  return 1 + temperature * Math.log(1 + Math.floor((position + temperatureOffset) / temperatureLength));
}

/** Four partial sums, so that additions do not depend on each other. */
function dot(left: Float32Array, leftStart: number, right: Float32Array, rightStart: number, length: number): number {
  const whole = length - (length % 4);
  let sum0 = 0;
  let sum1 = 0;
  let sum2 = 0;
  let sum3 = 0;
  for (let k = 0; k < whole; k += 4) {
    sum0 += left[leftStart + k] * right[rightStart + k];
    sum1 += left[leftStart + k + 1] * right[rightStart + k + 1];
    sum2 += left[leftStart + k + 2] * right[rightStart + k + 2];
    sum3 += left[leftStart + k + 3] * right[rightStart + k + 3];
  }
  for (let k = whole; k < length; k++) sum0 += left[leftStart + k] * right[rightStart + k];
  return sum0 + sum1 + sum2 + sum3;
}

function addScaled(sums: Float64Array, weight: number, values: Float32Array, start: number): void {
  for (let k = 0; k < sums.length; k++) sums[k] += weight * values[start + k];
}

/** The kernels that use the KV cache. */
export const ATTENTION_KERNELS = {
  "kv-write": ({ layer, key, value: stored }, { step, cache, value }) =>
    writeKv(step, cache, layer, value(key), stored === undefined ? undefined : value(stored)),
  attention: (operation, { step, cache, optional, value }) =>
    attention(
      operation,
      { step, cache, sinks: optional(operation.sinks) },
      value(operation.query),
      value(operation.out),
    ),
} satisfies SomeKernels;
