import { describe, expect, it } from "vitest";
import type { AttentionOperation } from "../../graph/operation.js";
import { attention, writeKv } from "./attention.js";
import { ReferenceKvCache } from "./kv-cache.js";
import type { Matrix } from "./matrix.js";

const TOKENS = 7;
const HEADS = 4;
const KV_HEADS = 2;
const WIDTH = 3;

const OPERATION: AttentionOperation = {
  kind: "attention",
  layer: 0,
  query: 0,
  heads: HEADS,
  kvHeads: KV_HEADS,
  keyWidth: WIDTH,
  valueWidth: WIDTH,
  scale: 0.7,
  out: 1,
};

function numbers(rows: number, width: number, seed: number): Matrix {
  const data = Float32Array.from({ length: rows * width }, (_, index) => 2 * Math.sin(index * 12.9898 + seed));
  return { data, offset: 0, stride: width, rows, width };
}

const query = numbers(TOKENS, HEADS * WIDTH, 1);
const key = numbers(TOKENS, KV_HEADS * WIDTH, 2);
const value = numbers(TOKENS, KV_HEADS * WIDTH, 3);

/** The formula itself, over the tokens of one sequence. */
function expectedRow(row: number, head: number, operation: AttentionOperation, sink: number | undefined): number[] {
  const kvHead = Math.floor(head / (HEADS / KV_HEADS));
  const first = operation.window === undefined ? 0 : Math.max(0, row - operation.window + 1);
  const scores = Array.from({ length: row + 1 - first }, (_, index) => {
    let score = 0;
    for (let k = 0; k < WIDTH; k++) {
      score +=
        query.data[(row * HEADS + head) * WIDTH + k] * key.data[((first + index) * KV_HEADS + kvHead) * WIDTH + k];
    }
    score *= operation.scale;
    return operation.softCap === undefined ? score : operation.softCap * Math.tanh(score / operation.softCap);
  });
  const total = scores.reduce((sum, score) => sum + Math.exp(score), sink === undefined ? 0 : Math.exp(sink));
  return Array.from({ length: WIDTH }, (_, k) =>
    scores.reduce(
      (sum, score, index) =>
        sum + (Math.exp(score) / total) * value.data[((first + index) * KV_HEADS + kvHead) * WIDTH + k],
      0,
    ),
  );
}

describe("attention", () => {
  it.each<[string, Partial<AttentionOperation>, readonly number[] | undefined]>([
    ["all positions", {}, undefined],
    ["a window of its own position", { window: 1 }, undefined],
    ["a window of three", { window: 3 }, undefined],
    ["a window longer than the sequence", { window: 100 }, undefined],
    ["a soft-cap", { softCap: 0.9 }, undefined],
    ["sinks", {}, [0, 3, -2, 1]],
    ["all of them", { window: 4, softCap: 2 }, [0, 3, -2, 1]],
  ])("is the formula with %s", (_, attributes, sinkLogits) => {
    const operation: AttentionOperation = { ...OPERATION, ...attributes };
    const shape = { layers: 1, kvHeads: KV_HEADS, keyWidth: WIDTH, valueWidth: WIDTH };
    using cache = new ReferenceKvCache({ ...shape, blocks: 4, blockTokens: 2, type: "f32" });
    const positions = Int32Array.from({ length: TOKENS }, (__, index) => index);
    const step = {
      tokens: positions,
      positions,
      sequenceOffsets: Int32Array.of(0, TOKENS),
      blockTables: [Int32Array.of(2, 0, 3, 1)],
      outputs: [],
    };
    const out = numbers(TOKENS, HEADS * WIDTH, 0);
    const sinks = sinkLogits === undefined ? undefined : Float32Array.from(sinkLogits);
    writeKv(step, cache.storage, 0, key, value);
    attention(operation, { step, cache: cache.storage, sinks }, query, out);
    for (let row = 0; row < TOKENS; row++) {
      for (let head = 0; head < HEADS; head++) {
        for (const [k, expected] of expectedRow(row, head, operation, sinks?.[head]).entries()) {
          expect(out.data[(row * HEADS + head) * WIDTH + k]).toBeCloseTo(expected, 5);
        }
      }
    }
  });
});
