// The results of a step's output rows: bias and mask first, then logits, candidates, a token or the hidden state. A row that is
// not finite is reported individually, so that one bad sequence does not fail its batch-mates.

import { chooseToken } from "../../sampler/token-choice.js";
import type { OutputRequest, OutputRow } from "../contract.js";
import type { Matrix } from "./matrix.js";

/** Up to this many candidates, insertion into a short sorted list is faster than sorting the vocabulary. */
const SHORT_LIST = 128;

/** The hidden state of a row, or that it is not finite. */
export function readHidden(matrix: Matrix, index: number): OutputRow {
  const values = rowOf(matrix, index);
  return notFinite(values) ?? { kind: "hidden", values };
}

/** The candidates or logits of a row, as `request` demands. */
export function readScored(request: OutputRequest, matrix: Matrix, index: number): OutputRow {
  const logits = rowOf(matrix, index);
  const stray = notFinite(logits);
  if (stray !== undefined) return stray;
  applyBias(logits, request);
  const logSum = logSumExp(logits);
  if (request.want.kind === "token") return chooseToken(request.want, { kind: "logits", logits, logSum });
  if (request.want.kind !== "candidates") return { kind: "logits", logits, logSum };
  return { kind: "candidates", ...topCandidates(logits, request.want.count), logSum };
}

function rowOf(matrix: Matrix, index: number): Float32Array {
  const start = matrix.offset + index * matrix.stride;
  return matrix.data.slice(start, start + matrix.width);
}

function notFinite(values: Float32Array): OutputRow | undefined {
  const column = values.findIndex((value) => !Number.isFinite(value));
  return column === -1 ? undefined : { kind: "not-finite", column };
}

function applyBias(logits: Float32Array, { bias, allowMask }: OutputRequest): void {
  for (const [index, id] of bias?.ids.entries() ?? []) logits[id] += bias?.values[index] ?? 0;
  if (allowMask === undefined) return;
  for (let id = 0; id < logits.length; id++) {
    if (((allowMask[id >>> 5] >>> (id & 31)) & 1) === 0) logits[id] = Number.NEGATIVE_INFINITY;
  }
}

function logSumExp(logits: Float32Array): number {
  let highest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > highest) highest = logit;
  if (highest === Number.NEGATIVE_INFINITY) return highest;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - highest);
  return highest + Math.log(sum);
}

interface Ranking {
  readonly ids: Int32Array;
  readonly logits: Float32Array;
}

/** Highest first, equal ones by ascending id. */
function topCandidates(logits: Float32Array, count: number): Ranking {
  const kept = Math.min(count, logits.length);
  return kept <= SHORT_LIST ? insertRanked(logits, kept) : sortRanked(logits, kept);
}

function sortRanked(logits: Float32Array, kept: number): Ranking {
  const ids = Int32Array.from(logits.keys())
    .sort((left, right) => logits[right] - logits[left] || left - right)
    .slice(0, kept);
  return { ids, logits: Float32Array.from(ids, (id) => logits[id]) };
}

/** Inserts into a short sorted list; most entries are below its last one. */
function insertRanked(logits: Float32Array, kept: number): Ranking {
  const ids = new Int32Array(kept);
  const best = new Float32Array(kept).fill(Number.NEGATIVE_INFINITY);
  let length = 0;
  for (let id = 0; id < logits.length; id++) {
    const logit = logits[id];
    if (length === kept && logit <= best[kept - 1]) continue;
    let place = length < kept ? length++ : kept - 1;
    for (; place > 0 && best[place - 1] < logit; place--) {
      best[place] = best[place - 1];
      ids[place] = ids[place - 1];
    }
    best[place] = logit;
    ids[place] = id;
  }
  return { ids, logits: best };
}
