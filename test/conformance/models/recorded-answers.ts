// llama.cpp's answers for some of the random models, kept in test/fixtures/peers so that `npm test` can compare without
// the peer. Written by `node bench/peers/record.mjs`; a hash of the weights tells when the models are no longer the same.

import { createHash } from "node:crypto";
import { Dice } from "../../support/dice.js";
import { FAMILY_NAMES, type FamilyCase, familyCase } from "./family-shapes.js";
import { FAMILIES, type RandomCase, SHAPE_CASES, TYPE_CASES } from "./random-cases.js";
import type { RandomModel } from "./random-model.js";

export const ANSWERS_FILE = new URL("../../fixtures/peers/random-models.json.br", import.meta.url);
export const FAMILY_ANSWERS_FILE = new URL("../../fixtures/peers/family-models.json.br", import.meta.url);
export const RECORDED_TOKENS = 24;
/** Past the shorter windows and the shorter contexts of scaled ropes. */
export const FAMILY_TOKENS = 40;

export interface RecordedAnswer {
  readonly name: string;
  readonly weights: string;
  /** PROBES tokens for each position. */
  readonly tokens: readonly number[];
  /** Of each token, negated, in units of LOG_STEP. Apart from the tokens both lists compress better. */
  readonly logs: readonly number[];
}

export interface RecordedAnswers {
  readonly how: string;
  readonly answers: readonly RecordedAnswer[];
}

const RECORDED_SHAPES = [
  ...FAMILIES.flatMap((family) => [`${family}, odd sizes`, `${family}, YaRN`, `${family}, types mixed in one file`]),
  "llama, frequency factors and YaRN",
  "llama, a factor and no scaling type",
  "llama, biases everywhere",
  "llama, heads wider than their share",
  "qwen2, a bias on a tied output",
  "qwen3, heads narrower than their share",
  "qwen3, scales of 4-bit floats",
  "glm4, queries, keys and values in one product",
  "glm4, sections of a multimodal rope",
  "glm4, a block that predicts further tokens",
];

/** Every type once, the families taking turns, and the shapes above. */
export const RECORDED_CASES: readonly RandomCase[] = [
  ...TYPE_CASES.filter((_, index) => index % FAMILIES.length === Math.floor(index / FAMILIES.length) % FAMILIES.length),
  ...RECORDED_SHAPES.map((name) => {
    const found = SHAPE_CASES.find((candidate) => candidate.name === name);
    if (found === undefined) throw new Error(`there is no random model "${name}"`);
    return found;
  }),
];

/** Two random shapes of every family. */
export const RECORDED_FAMILIES: readonly FamilyCase[] = FAMILY_NAMES.flatMap((family) =>
  [0, 1].map((number) => familyCase(family, number)),
);

export function hashOfWeights(model: RandomModel): string {
  const hash = createHash("sha256");
  for (const { name, type, shape, data } of model.tensors)
    hash.update(`${name} ${type} ${shape.join(" ")}\n`).update(data);
  return hash.digest("hex").slice(0, 16);
}

const LIKELIEST = 5;
const OTHERS = 3;
/** Tokens that are kept of one position. */
export const PROBES = LIKELIEST + OTHERS;
const LOG_STEP = 1e-5;

/** What is kept of one position: the likeliest tokens, and a few drawn ones, for the unlikely must be right too. */
function probes(logs: Float64Array, row: number): readonly number[] {
  const dice = new Dice(row);
  const likeliest = [...logs.keys()].sort((a, b) => logs[b] - logs[a]).slice(0, LIKELIEST);
  const others = Array.from({ length: OTHERS }, () => dice.below(logs.length));
  return [...likeliest, ...others];
}

/** What is kept of the log-probabilities of a text, a row of a vocabulary for each position. */
export function recordedPositions(
  logs: Float64Array,
  vocabulary: number,
): { readonly tokens: readonly number[]; readonly logs: readonly number[] } {
  const rows = Array.from({ length: logs.length / vocabulary }, (_, row) =>
    logs.subarray(row * vocabulary, (row + 1) * vocabulary),
  );
  const kept = rows.map((row, place) => probes(row, place));
  return {
    tokens: kept.flat(),
    logs: kept.flatMap((tokens, place) => tokens.map((token) => Math.round(-rows[place][token] / LOG_STEP))),
  };
}

/** Absolute differences of log-probabilities, a row of a vocabulary for each position, from those that were recorded. */
export function differencesFromRecorded(
  answer: RecordedAnswer,
  logs: Float64Array,
  vocabulary: number,
): readonly number[] {
  return answer.tokens.map((token, index) =>
    Math.abs(logs[Math.floor(index / PROBES) * vocabulary + token] + answer.logs[index] * LOG_STEP),
  );
}
