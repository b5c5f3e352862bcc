// The words of a step's requests and results, read and written here by a plain stand-in for kernels/rows/outputs.hip,
// against what the reference backend makes of the same logits.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Dice } from "../../../../test/support/dice.js";
import type { OutputRequest, OutputRow } from "../../contract.js";
import { readHidden, readScored } from "../../reference/outputs.js";
import {
  maxResultWords,
  packOutputs,
  chunkBytes,
  planOutputs,
  REQUEST_WORDS,
  scoreBlocks,
  unpackOutputs,
} from "./output-rows.js";
import { MAX_DEVICE_CANDIDATES, SAMPLING_WORDS } from "./token-request.js";

const VOCABULARY = 3001;
const HIDDEN = 16;
const PAYLOAD_AT = 500;

/**
 * Applies one row's request to its logits and writes its results, by the comments in kernels/rows/outputs.hip alone.
 */
function compute(
  words: Int32Array,
  requestAt: number,
  firstRequest: number,
  logits: Float32Array,
  results: Int32Array,
): void {
  const floats = new Float32Array(words.buffer);
  const [candidates, biasCount, biasStart, maskStart, resultStart] = words.subarray(
    requestAt,
    requestAt + REQUEST_WORDS,
  );
  const stray = logits.findIndex((value) => !Number.isFinite(value));
  const ids = firstRequest + biasStart;
  for (let entry = 0; entry < biasCount; entry++) {
    if (entry > 0) expect(words[ids + entry]).toBeGreaterThanOrEqual(words[ids + entry - 1]);
    logits[words[ids + entry]] += floats[ids + biasCount + entry];
  }
  for (let id = 0; maskStart >= 0 && id < logits.length; id++) {
    if (((words[firstRequest + maskStart + (id >>> 5)] >>> (id & 31)) & 1) === 0) logits[id] = Number.NEGATIVE_INFINITY;
  }
  const order = Array.from(logits.keys()).sort((left, right) => logits[right] - logits[left] || left - right);
  const maximum = logits[order[0]];
  const sum =
    maximum === Number.NEGATIVE_INFINITY ? 0 : logits.reduce((total, logit) => total + Math.exp(logit - maximum), 0);
  const out = new Float32Array(results.buffer);
  out[resultStart] = maximum;
  out[resultStart + 1] = sum;
  results[resultStart + 2] = stray;
  for (let place = 0; place < candidates; place++) {
    results[resultStart + 4 + 2 * place] = order[place];
    out[resultStart + 5 + 2 * place] = logits[order[place]];
  }
}

function rowsOf(outputs: readonly OutputRequest[], logits: readonly Float32Array[], hidden: Float32Array): OutputRow[] {
  const plan = planOutputs(outputs, VOCABULARY);
  const words = new Int32Array(PAYLOAD_AT + plan.payloadWords).fill(0x7fffffff);
  const requestsAt = 12;
  packOutputs(plan, words, requestsAt, PAYLOAD_AT);
  const results = new Int32Array(plan.resultWords);
  const computed = logits.map((row) => row.slice());
  for (let row = 0; row < plan.scored; row++)
    compute(words, requestsAt + row * REQUEST_WORDS, requestsAt, computed[row], results);
  const whole = plan.wholeRows.map(({ value, row }) =>
    value === "logits" ? computed[row] : hidden.subarray(row * HIDDEN, (row + 1) * HIDDEN),
  );
  return unpackOutputs(plan, results, (index) => whole[index]);
}

function expectedRows(
  outputs: readonly OutputRequest[],
  logits: readonly Float32Array[],
  hidden: Float32Array,
): OutputRow[] {
  let scored = 0;
  return outputs.map((request, index) => {
    if (request.want.kind === "hidden") {
      return readHidden({ data: hidden, offset: 0, stride: HIDDEN, rows: outputs.length, width: HIDDEN }, index);
    }
    return readScored(
      request,
      { data: logits[scored++], offset: 0, stride: VOCABULARY, rows: 1, width: VOCABULARY },
      0,
    );
  });
}

function expectAlike(found: readonly OutputRow[], expected: readonly OutputRow[]): void {
  expect(found).toHaveLength(expected.length);
  for (const [index, row] of expected.entries()) {
    const other = found[index];
    if ((row.kind === "candidates" || row.kind === "logits") && other.kind === row.kind) {
      expect({ ...other, logSum: 0 }).toEqual({ ...row, logSum: 0 });
      if (Number.isFinite(row.logSum)) expect(other.logSum).toBeCloseTo(row.logSum, 5);
      else expect(other.logSum).toBe(row.logSum);
    } else {
      expect(other).toEqual(row);
    }
  }
}

/** Few different values, so that equal logits are everywhere. */
function tiedLogits(dice: Dice, rows: number): Float32Array[] {
  return Array.from({ length: rows }, () =>
    Float32Array.from({ length: VOCABULARY }, () => Math.floor(dice.between(-40, 40)) / 4 + 0.125),
  );
}

const mask = Uint32Array.from({ length: Math.ceil(VOCABULARY / 32) }, (_, word) =>
  word % 3 === 0 ? 0xf0f0f0f1 : 0x55555555,
);
const bias = {
  ids: Int32Array.of(2999, 5, 900, 17, 5, 3000),
  values: Float32Array.of(30, 3, Number.NEGATIVE_INFINITY, -2.5, 0.1, 30),
};

const MIXED: readonly OutputRequest[] = [
  { row: 0, want: { kind: "candidates", count: 1 } },
  { row: 1, want: { kind: "hidden" } },
  { row: 2, want: { kind: "candidates", count: 40 }, bias },
  { row: 3, want: { kind: "logits" }, bias, allowMask: mask },
  { row: 4, want: { kind: "candidates", count: MAX_DEVICE_CANDIDATES }, allowMask: mask },
  { row: 5, want: { kind: "candidates", count: MAX_DEVICE_CANDIDATES + 1 } },
  { row: 6, want: { kind: "candidates", count: 2500 }, allowMask: mask },
  { row: 8, want: { kind: "candidates", count: 1_000_000 }, bias },
  { row: 9, want: { kind: "hidden" } },
];

describe("output rows", () => {
  const dice = new Dice(5);
  const hidden = Float32Array.from({ length: MIXED.length * HIDDEN }, () => dice.between(-1, 1));

  it("come back as the reference backend gives them", () => {
    const logits = tiedLogits(dice, 7);
    expectAlike(rowsOf(MIXED, logits, hidden), expectedRows(MIXED, logits, hidden));
  });

  it("say by themselves where they are not finite", () => {
    const logits = tiedLogits(dice, 7);
    logits[1][2000] = Number.NaN;
    logits[1][2001] = Number.POSITIVE_INFINITY;
    logits[2][0] = Number.NEGATIVE_INFINITY;
    const broken = hidden.slice();
    broken[8 * HIDDEN + 3] = Number.NaN;
    const rows = rowsOf(MIXED, logits, broken);
    expectAlike(rows, expectedRows(MIXED, logits, broken));
    expect(rows.map((row) => (row.kind === "not-finite" ? row.column : -1))).toEqual([
      -1, -1, 2000, 0, -1, -1, -1, -1, 3,
    ]);
  });

  it("are as unlikely as can be where everything is forbidden", () => {
    const none = new Uint32Array(mask.length);
    const outputs: OutputRequest[] = [1, 3, 2000].map((count, row) => ({
      row,
      want: { kind: "candidates", count },
      allowMask: none,
    }));
    const logits = tiedLogits(dice, 3);
    expectAlike(rowsOf(outputs, logits, hidden), expectedRows(outputs, logits, hidden));
  });

  it("store a shared mask or bias once, and a row's results behind the row before", () => {
    const plan = planOutputs(MIXED, VOCABULARY);
    expect(plan.payloadWords).toBe(2 * bias.ids.length + mask.length);
    expect(plan.resultWords).toBe(7 * 4 + 2 * (1 + 40 + MAX_DEVICE_CANDIDATES));
    expect(plan.resultWords).toBeLessThanOrEqual(maxResultWords(plan.scored));
    expect(plan.wholeRows).toEqual([
      { value: "hidden", row: 1 },
      { value: "logits", row: 2 },
      { value: "logits", row: 4 },
      { value: "logits", row: 5 },
      { value: "logits", row: 6 },
      { value: "hidden", row: 8 },
    ]);
  });

  it("do not hand out memory that is used again", () => {
    const row = new Float32Array(HIDDEN);
    const plan = planOutputs([{ row: 0, want: { kind: "hidden" } }], VOCABULARY);
    const [found] = unpackOutputs(plan, new Int32Array(0), () => row);
    row.fill(7);
    expect(found).toEqual({ kind: "hidden", values: new Float32Array(HIDDEN) });
  });
});

describe("numbers shared with kernels/rows/output-request.h", () => {
  const source = readFileSync(new URL("../../../../kernels/rows/output-request.h", import.meta.url), "utf8");
  const constant = (name: string): number =>
    Number(new RegExp(String.raw`constexpr int ${name} = (\d+);`).exec(source)?.[1]);

  it("are the same", () => {
    expect(MAX_DEVICE_CANDIDATES).toBe(constant("kMaxCandidates"));
    const columns = 4 * constant("kScoreThreads");
    expect(scoreBlocks(128_256)).toBe(Math.ceil(128_256 / columns));
    expect(chunkBytes(128_256, 3)).toBe(3 * scoreBlocks(128_256) * (columns / constant("kChunkColumns")) * 32);
    const request =
      /struct alignas\(16\) OutputRequest \{([^}]*)\};/.exec(source.replace(/\/\*[\s\S]*?\*\//g, ""))?.[1] ?? "";
    const members = [...request.matchAll(/(int|float|double) (\w+);/g)].map(([, type, name]) => ({
      name,
      words: type === "double" ? 2 : 1,
    }));
    const wordsOf = (list: typeof members): number => list.reduce((total, { words }) => total + words, 0);
    const choice = members.findIndex(({ name }) => name === "choice");
    expect(wordsOf(members)).toBe(REQUEST_WORDS);
    expect(wordsOf(members.slice(choice))).toBe(SAMPLING_WORDS);
  });
});
