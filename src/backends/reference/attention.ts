// Writing to and attending over the paged cache, one token and one head at a time, softmax in double precision.

import type { AttentionOperation } from "../../graph/operation.js";
import type { StepInput } from "../contract.js";
import type { KvStorage } from "./kv-cache.js";
import type { Matrix } from "./matrix.js";

/** Calls back with each row's sequence and position. */
function forEachRow(step: StepInput, visit: (row: number, table: Int32Array, position: number) => void): void {
  for (const [sequence, table] of step.blockTables.entries()) {
    for (let row = step.sequenceOffsets[sequence]; row < step.sequenceOffsets[sequence + 1]; row++) {
      visit(row, table, step.positions[row]);
    }
  }
}

export function writeKv(step: StepInput, cache: KvStorage, layer: number, key: Matrix, value: Matrix): void {
  const { blockTokens } = cache;
  const store = (source: Matrix, row: number, target: Float32Array, slot: number): void => {
    const from = source.offset + row * source.stride;
    target.set(source.data.subarray(from, from + source.width), slot * source.width);
    cache.round(target.subarray(slot * source.width, (slot + 1) * source.width));
  };
  forEachRow(step, (row, table, position) => {
    const slot = table[Math.floor(position / blockTokens)] * blockTokens + (position % blockTokens);
    store(key, row, cache.keys[layer], slot);
    store(value, row, cache.values[layer], slot);
  });
}

export function attention(
  operation: AttentionOperation,
  step: StepInput,
  cache: KvStorage,
  query: Matrix,
  out: Matrix,
): void {
  const { heads, kvHeads, keyWidth, valueWidth, scale, layer } = operation;
  const { blockTokens } = cache;
  const keys = cache.keys[layer];
  const values = cache.values[layer];
  const longest = step.positions.reduce((most, position) => Math.max(most, position), 0) + 1;
  const weights = new Float64Array(longest);
  const slots = new Int32Array(longest);
  const sums = new Float64Array(valueWidth);

  forEachRow(step, (row, table, position) => {
    for (let past = 0; past <= position; past++) {
      slots[past] = table[Math.floor(past / blockTokens)] * blockTokens + (past % blockTokens);
    }
    for (let head = 0; head < heads; head++) {
      const kvHead = Math.floor(head / (heads / kvHeads));
      const queryStart = query.offset + row * query.stride + head * keyWidth;
      let highest = Number.NEGATIVE_INFINITY;
      for (let past = 0; past <= position; past++) {
        const keyStart = slots[past] * cache.keyRow + kvHead * keyWidth;
        let dot = 0;
        for (let k = 0; k < keyWidth; k++) dot += query.data[queryStart + k] * keys[keyStart + k];
        weights[past] = dot * scale;
        if (weights[past] > highest) highest = weights[past];
      }
      let total = 0;
      sums.fill(0);
      for (let past = 0; past <= position; past++) {
        const weight = Math.exp(weights[past] - highest);
        total += weight;
        const valueStart = slots[past] * cache.valueRow + kvHead * valueWidth;
        for (let k = 0; k < valueWidth; k++) sums[k] += weight * values[valueStart + k];
      }
      const outStart = out.offset + row * out.stride + head * valueWidth;
      for (let k = 0; k < valueWidth; k++) out.data[outStart + k] = sums[k] / total;
    }
  });
}
