// What a step returns for each output row: bias and mask first, then logits, candidates or the hidden state.

import { BackendError } from "../../errors.js";
import type { OutputRequest, OutputRow } from "../contract.js";
import type { Matrix } from "./matrix.js";

export function readOutput(request: OutputRequest, index: number, hidden: Matrix, logits: Matrix | undefined): OutputRow {
  if (request.want.kind === "hidden") return { kind: "hidden", values: rowOf(hidden, index) };
  if (logits === undefined) throw new BackendError("BACKEND_STEP", "[step] this program computes no logits");
  const row = rowOf(logits, index);
  refuseNotANumber(row, request.row);
  applyBias(row, request);
  if (request.want.kind === "logits") return { kind: "logits", logits: row };
  return { kind: "candidates", ...topCandidates(row, request.want.count), logSum: logSumExp(row) };
}

function rowOf(matrix: Matrix, index: number): Float32Array {
  const start = matrix.offset + index * matrix.stride;
  return matrix.data.slice(start, start + matrix.width);
}

function refuseNotANumber(logits: Float32Array, row: number): void {
  const stray = logits.findIndex((logit) => !Number.isFinite(logit));
  if (stray === -1) return;
  throw new BackendError(
    "BACKEND_NOT_FINITE",
    `[step] row ${row}: the logit of token ${stray} is ${logits[stray]}; the model's weights overflow f32 or are damaged`,
    { details: { row, token: stray } },
  );
}

function applyBias(logits: Float32Array, { bias, allowMask }: OutputRequest): void {
  for (const [index, id] of bias?.ids.entries() ?? []) logits[id] += bias?.values[index] ?? 0;
  if (allowMask === undefined) return;
  for (let id = 0; id < logits.length; id++) {
    if (((allowMask[id >>> 5] >>> (id & 31)) & 1) === 0) logits[id] = Number.NEGATIVE_INFINITY;
  }
}

export function logSumExp(logits: Float32Array): number {
  let highest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > highest) highest = logit;
  if (highest === Number.NEGATIVE_INFINITY) return highest;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - highest);
  return highest + Math.log(sum);
}

/** Highest first, equal ones by rising id: insertion into a short sorted list, most entries fail its last one. */
function topCandidates(logits: Float32Array, count: number): { readonly ids: Int32Array; readonly logits: Float32Array } {
  const kept = Math.min(count, logits.length);
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
