// What the output rows of a step ask for, as words for kernels/rows/outputs.hip, and its results as OutputRows again.
// A request has a fixed place, one for each scored row; bias lists and masks lie anywhere behind it and are named by
// their distance from the first request. Results are packed: a head and the candidates of one row after the other.

import { chooseToken, rowForToken, type TokenWant } from "../../../sampler/token-choice.js";
import type { OutputRequest, OutputRow, OutputWant, SparseBias } from "../../contract.js";
import {
  type DeviceChoice,
  deviceChoice,
  MAX_DEVICE_CANDIDATES,
  penaltyWords,
  writePenalties,
  writeSampling,
} from "./token-request.js";

/** Words of `OutputRequest` in kernels/rows/output-request.h, and those before `choice`. */
export const REQUEST_WORDS = 24;
const ROW_WORDS = 5;
const RESULT_HEAD_WORDS = 4;
const PAIR_WORDS = 2;
/** Columns that a thread block of `score_chunks` reads, and what it writes: 8 chunks of 32 bytes. */
const SCORE_COLUMNS = 1024;
const SCORE_CHUNKS_BYTES = 8 * 32;
const NO_MASK = -1;

/** Blocks of `score_chunks` along x. */
export function scoreBlocks(vocabularySize: number): number {
  return Math.ceil(vocabularySize / SCORE_COLUMNS);
}

/** Scratch memory between the two kernels. */
export function chunkBytes(vocabularySize: number, scored: number): number {
  return scoreBlocks(vocabularySize) * SCORE_CHUNKS_BYTES * scored;
}

/** The most words that the results of `scored` rows take. */
export function maxResultWords(scored: number): number {
  return scored * (RESULT_HEAD_WORDS + PAIR_WORDS * (1 + MAX_DEVICE_CANDIDATES));
}

/** A row of the hidden state or of the logits that the host needs as a whole. */
export interface WholeRow {
  readonly value: "hidden" | "logits";
  /** Among the outputs for `hidden`, among the scored rows for `logits`. */
  readonly row: number;
}

interface PlannedRow {
  readonly request: OutputRequest;
  /** What the device computes. */
  readonly computed: OutputWant;
  /** How it chooses a token. */
  readonly choice: DeviceChoice;
  /** Candidates that the device chooses; 0 where it chooses none. */
  readonly candidates: number;
  /** First word of its results; hidden rows have none. */
  readonly resultStart: number;
  /** Index into `wholeRows`, or -1. */
  readonly whole: number;
}

export interface OutputPlan {
  readonly rows: readonly PlannedRow[];
  readonly vocabularySize: number;
  readonly scored: number;
  /** Words that bias lists and masks take. */
  readonly payloadWords: number;
  readonly resultWords: number;
  /** To be copied from the device after the kernels have run: bias and mask are in them then. */
  readonly wholeRows: readonly WholeRow[];
}

export function planOutputs(outputs: readonly OutputRequest[], vocabularySize: number): OutputPlan {
  const rows: PlannedRow[] = [];
  const wholeRows: WholeRow[] = [];
  /** Lists and masks that have a place; made where there are any. */
  let shared: Set<SparseBias | Uint32Array> | undefined;
  const wordsOf = (item: SparseBias | Uint32Array, words: number): number => {
    shared ??= new Set();
    if (shared.has(item)) return 0;
    shared.add(item);
    return words;
  };
  let scored = 0;
  let payloadWords = 0;
  let resultWords = 0;
  for (let index = 0; index < outputs.length; index++) {
    const request = outputs[index];
    const { want, bias, allowMask } = request;
    if (want.kind === "hidden") {
      rows.push({
        request,
        computed: want,
        choice: "none",
        candidates: 0,
        resultStart: -1,
        whole: wholeRows.push({ value: "hidden", row: index }) - 1,
      });
      continue;
    }
    const choice = want.kind === "token" ? choiceOf(want, vocabularySize) : "none";
    // A token that the device does not choose is chosen on the host, from a row.
    const computed = want.kind === "token" && choice === "none" ? rowForToken(want, vocabularySize) : want;
    const wanted = candidatesOf(computed, vocabularySize);
    const candidates = wanted <= MAX_DEVICE_CANDIDATES ? wanted : 0;
    const whole = candidates > 0 || choice !== "none" ? -1 : wholeRows.push({ value: "logits", row: scored }) - 1;
    rows.push({ request, computed, choice, candidates, resultStart: resultWords, whole });
    scored++;
    resultWords += RESULT_HEAD_WORDS + PAIR_WORDS * ((choice === "none" ? 0 : 1) + candidates);
    if (want.kind === "token" && choice !== "none" && want.sampling.penalties !== undefined)
      payloadWords += penaltyWords(want.sampling.penalties);
    if (bias !== undefined) payloadWords += wordsOf(bias, 2 * bias.ids.length);
    if (allowMask !== undefined) payloadWords += wordsOf(allowMask, allowMask.length);
  }
  return { rows, vocabularySize, scored, payloadWords, resultWords, wholeRows };
}

/** The word of the results with the token that an output chooses: its token or its first candidate. */
export function chosenWord({ rows }: OutputPlan, output: number): number {
  return rows[output].resultStart + RESULT_HEAD_WORDS;
}

function choiceOf({ sampling, top }: TokenWant, vocabularySize: number): DeviceChoice {
  return Math.min(top, vocabularySize) > MAX_DEVICE_CANDIDATES ? "none" : deviceChoice(sampling);
}

/** The likeliest tokens that a row contains. */
function candidatesOf(want: OutputWant, vocabularySize: number): number {
  if (want.kind === "candidates") return Math.min(want.count, vocabularySize);
  return want.kind === "token" ? Math.min(want.top, vocabularySize) : 0;
}

/**
 * Writes the requests from word `requestsAt` on and their lists and masks from word `payloadAt` on, which comes later.
 */
export function packOutputs({ rows }: OutputPlan, words: Int32Array, requestsAt: number, payloadAt: number): void {
  /** Rows that share a mask or a list share its place. */
  let places: Map<SparseBias | Uint32Array, number> | undefined;
  let end = payloadAt;
  let at = requestsAt;
  const place = (item: SparseBias | Uint32Array, size: number, write: (start: number) => void): number => {
    places ??= new Map();
    const known = places.get(item);
    if (known !== undefined) return known - requestsAt;
    const start = end;
    write(start);
    places.set(item, start);
    end += size;
    return start - requestsAt;
  };
  for (const { request, choice, candidates, resultStart } of rows) {
    const { want, bias, allowMask } = request;
    if (want.kind === "hidden") continue;
    words[at] = candidates;
    words[at + 1] = bias?.ids.length ?? 0;
    words[at + 2] = bias === undefined ? 0 : place(bias, 2 * bias.ids.length, (start) => writeBias(bias, words, start));
    words[at + 3] =
      allowMask === undefined ? NO_MASK : place(allowMask, allowMask.length, (start) => words.set(allowMask, start));
    words[at + 4] = resultStart;
    const sampling = want.kind === "token" && choice !== "none" ? want.sampling : undefined;
    let penaltyStart = 0;
    if (sampling?.penalties !== undefined) {
      writePenalties(sampling.penalties, words, end);
      penaltyStart = end - requestsAt;
      end += penaltyWords(sampling.penalties);
    }
    writeSampling(words, at + ROW_WORDS, choice, sampling, penaltyStart);
    at += REQUEST_WORDS;
  }
}

/** Ids, then values, by rising id; entries of one id keep their order, which is the order of their additions. */
function writeBias({ ids, values }: SparseBias, words: Int32Array, start: number): void {
  const count = ids.length;
  const floats = new Float32Array(
    words.buffer,
    words.byteOffset + (start + count) * Float32Array.BYTES_PER_ELEMENT,
    count,
  );
  words.set(ids, start);
  floats.set(values);
  if (ids.every((id, index) => index === 0 || ids[index - 1] <= id)) return;
  const order = Array.from(ids.keys()).sort((left, right) => ids[left] - ids[right] || left - right);
  for (const [place, index] of order.entries()) {
    words[start + place] = ids[index];
    floats[place] = values[index];
  }
}

/** `wholeRow(i)` is the copy of `plan.wholeRows[i]`, which may be overwritten later. */
export function unpackOutputs(
  { rows, vocabularySize }: OutputPlan,
  results: Int32Array,
  wholeRow: (index: number) => Float32Array,
): OutputRow[] {
  const found: OutputRow[] = [];
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index];
    if (row.request.want.kind === "hidden") found.push(hiddenRow(wholeRow(row.whole).slice()));
    else found.push(answer(row, scoredRow(row, vocabularySize, results, wholeRow)));
  }
  return found;
}

/** What a request asks for, from what the device computed. */
function answer({ request: { want } }: PlannedRow, row: OutputRow): OutputRow {
  const isRow = row.kind === "candidates" || row.kind === "logits";
  return want.kind === "token" && isRow ? chooseToken(want, row) : row;
}

function scoredRow(
  { computed: want, candidates, resultStart, whole }: PlannedRow,
  vocabularySize: number,
  results: Int32Array,
  wholeRow: (index: number) => Float32Array,
): OutputRow {
  const column = results[resultStart + 2];
  if (column >= 0) return { kind: "not-finite", column };
  const logSum = logSumOf(floatAt(results, resultStart), floatAt(results, resultStart + 1));
  if (want.kind === "logits") return { kind: "logits", logits: wholeRow(whole).slice(), logSum };
  if (want.kind === "candidates" && whole >= 0)
    return { kind: "candidates", ...rank(wholeRow(whole), Math.min(want.count, vocabularySize)), logSum };
  const isToken = want.kind === "token";
  const pairs = resultStart + RESULT_HEAD_WORDS + (isToken ? PAIR_WORDS : 0);
  const ids = new Int32Array(candidates);
  const logits = new Float32Array(candidates);
  for (let place = 0; place < candidates; place++) {
    ids[place] = results[pairs + PAIR_WORDS * place];
    logits[place] = floatAt(results, pairs + PAIR_WORDS * place + 1);
  }
  if (!isToken) return { kind: "candidates", ids, logits, logSum };
  const chosen = resultStart + RESULT_HEAD_WORDS;
  return { kind: "token", token: results[chosen], logit: floatAt(results, chosen + 1), ids, logits, logSum };
}

const word = new Int32Array(1);
const asFloat = new Float32Array(word.buffer);

/** A float among words. No view is made for it: most steps bring three. */
function floatAt(words: Int32Array, index: number): number {
  word[0] = words[index];
  return asFloat[0];
}

function hiddenRow(values: Float32Array): OutputRow {
  const column = values.findIndex((value) => !Number.isFinite(value));
  return column === -1 ? { kind: "hidden", values } : { kind: "not-finite", column };
}

function logSumOf(maximum: number, sum: number): number {
  return maximum === Number.NEGATIVE_INFINITY ? maximum : maximum + Math.log(sum);
}

/**
 * Highest first, equal ones by rising id. Sorting bare numbers is quick: only those above the last one kept are ranked
 * by id.
 */
function rank(logits: Float32Array, count: number): { readonly ids: Int32Array; readonly logits: Float32Array } {
  const lowest = logits.slice().sort()[logits.length - count];
  const ids: number[] = [];
  for (const [id, logit] of logits.entries()) if (logit > lowest) ids.push(id);
  ids.sort((left, right) => logits[right] - logits[left] || left - right);
  for (let id = 0; ids.length < count; id++) if (logits[id] === lowest) ids.push(id);
  return { ids: Int32Array.from(ids), logits: Float32Array.from(ids, (id) => logits[id]) };
}
