// How the device chooses a row's token, as words of `OutputRequest` in kernels/rows/output-request.h. What the kernels do
// not compute is chosen on the host, from candidates or logits of the row.

import { cutsNothing, keptByRank } from "../../../sampler/token-choice.js";
import type { TokenPenalties, TokenSampling } from "../../contract.js";

/** The most candidates a row gets from the device; for more, the whole row is copied and ranked on the host. */
export const MAX_DEVICE_CANDIDATES = 1024;
/** More penalties than these take longer to upload and to look up than a row of logits takes to copy. */
const MAX_DEVICE_PENALTIES = 4096;
/** Ids, factors, decreases, and room for the logits before them. */
const PENALTY_PARTS = 4;
/** A temperature below 10^-30 is as good as that. */
const LARGEST_SCALE = 1.5e30;
const XTC_OFF = -1;
/** Words from `choice` to the end of a request. */
export const SAMPLING_WORDS = 19;

/** Values of `OutputRequest.choice`. */
const CHOICES = { none: 0, all: 1, ranked: 2, value: 3 } as const;

/** How a token is chosen on the device. */
export type DeviceChoice = keyof typeof CHOICES;

/** How the device chooses a token, or `none` if the host has to. */
export function deviceChoice(sampling: TokenSampling): DeviceChoice {
  if ((sampling.penalties?.ids.length ?? 0) > MAX_DEVICE_PENALTIES) return "none";
  const kept = keptByRank(sampling);
  if (kept !== undefined) return kept <= MAX_DEVICE_CANDIDATES ? "ranked" : "none";
  if (cutsNothing(sampling)) return "all";
  return sampling.xtcThreshold === undefined && sampling.minKeep === 1 ? "value" : "none";
}

/** Words that a list of penalties takes. */
export function penaltyWords({ ids }: TokenPenalties): number {
  return PENALTY_PARTS * ids.length;
}

export function writePenalties({ ids, factors, decreases }: TokenPenalties, words: Int32Array, start: number): void {
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  words.set(ids, start);
  floats.set(factors, start + ids.length);
  floats.set(decreases, start + 2 * ids.length);
}

/** Writes the words of a request from `choice` on, which say how its token is chosen. */
export function writeSampling(
  words: Int32Array,
  at: number,
  choice: DeviceChoice,
  sampling: TokenSampling | undefined,
  penaltyStart: number,
): void {
  words.fill(0, at, at + SAMPLING_WORDS);
  if (sampling === undefined) return;
  const { temperature, minKeep, penalties, draw, typicalP, topP, minP, xtcThreshold = XTC_OFF } = sampling;
  const scale = temperature === 0 ? 0 : Math.min(Math.LOG2E / temperature, LARGEST_SCALE);
  words[at] = CHOICES[choice];
  words[at + 1] = keptByRank(sampling) ?? 0;
  words[at + 2] = minKeep;
  words[at + 3] = penalties?.ids.length ?? 0;
  words[at + 4] = penaltyStart;
  words[at + 5] = floatBits(scale);
  words[at + 6] = floatBits(scale - Math.fround(scale));
  writeDouble(words, at + 7, draw);
  writeDouble(words, at + 9, typicalP);
  writeDouble(words, at + 11, topP);
  writeDouble(words, at + 13, Math.log(minP));
  writeDouble(words, at + 15, xtcThreshold);
}

const double = new Float64Array(1);
const halves = new Int32Array(double.buffer);
const float = new Float32Array(1);
const bits = new Int32Array(float.buffer);

function writeDouble(words: Int32Array, at: number, value: number): void {
  double[0] = value;
  words[at] = halves[0];
  words[at + 1] = halves[1];
}

function floatBits(value: number): number {
  float[0] = value;
  return bits[0];
}
