// Chooses one token from a row: the chain of stages as a function without state. It defines what a request for a token
// means; backends that choose on the device agree with it, and the others call it. Invariants: the same row, sampling and
// random number give the same token, whether the row comes as candidates or as logits; after the first token nothing of
// the vocabulary's size is allocated.

import type { OutputRow, OutputWant, TokenSampling } from "../backends/contract.js";
import { Candidates, type SampleInput } from "./candidates.js";
import { drawAt, drawFromAll } from "./draw.js";
import { applyPenalties, loweredTokens } from "./penalties.js";
import { keepMinP, keepTopK, keepTopP, keepTypical } from "./truncation.js";
import { excludeTopChoices } from "./xtc.js";

/** With more candidates than this, a row of logits is as cheap to copy and to read. */
const MAX_CANDIDATES = 1024;

const LOGITS = { kind: "logits" } as const;

/** A request for a token. */
export type TokenWant = Extract<OutputWant, { readonly kind: "token" }>;

/** A chosen token, with the most likely ones. */
export type TokenRow = Extract<OutputRow, { readonly kind: "token" }>;

/** What a row has to contain for a token to be chosen from it. */
export type ScoredWant = Extract<OutputWant, { readonly kind: "candidates" | "logits" }>;

/** Shared by all callers: choosing a token is synchronous and keeps no state here. */
const candidates = new Candidates();
const scratch = new Candidates();

/** Whether no stage truncates: the draw is from the whole distribution. */
export function cutsNothing(sampling: TokenSampling): boolean {
  const { temperature, topK, topP, minP, typicalP, xtcThreshold } = sampling;
  return temperature > 0 && topK === 0 && topP >= 1 && minP <= 0 && typicalP >= 1 && xtcThreshold === undefined;
}

/** How many of the best tokens can matter, if that is known before the logits are. */
export function keptByRank({ temperature, topK, minKeep }: TokenSampling): number | undefined {
  if (temperature === 0) return 1;
  return topK === 0 ? undefined : Math.max(topK, minKeep);
}

/** The row that a token can be chosen from: candidates if the choice cannot depend on the other logits. */
export function rowForToken({ sampling, top }: TokenWant, vocabularySize: number): ScoredWant {
  const lowered = loweredTokens(sampling.penalties);
  const kept = keptByRank(sampling);
  if (kept === undefined || lowered === undefined) return LOGITS;
  // Each lowered token may leave the top and let another one in.
  return candidatesOrLogits(Math.max(kept + lowered, top), vocabularySize);
}

/** A request for `count` candidates, or for logits if that costs no more. */
export function candidatesOrLogits(count: number, vocabularySize: number): ScoredWant {
  return count > MAX_CANDIDATES || count >= vocabularySize ? LOGITS : { kind: "candidates", count };
}

/** Answers a request for a token from a row of `rowForToken`, or a larger one. */
export function chooseToken({ sampling, top }: TokenWant, row: SampleInput): TokenRow {
  const { logSum } = row;
  const ids = row.kind === "candidates" ? row.ids.subarray(0, top) : likeliest(row.logits, top);
  const logits =
    row.kind === "candidates" ? row.logits.subarray(0, top) : Float32Array.from(ids, (id) => row.logits[id]);
  const token = logSum === Number.NEGATIVE_INFINITY ? -1 : choose(row, sampling);
  const logit =
    token < 0 ? Number.NEGATIVE_INFINITY : row.logits[row.kind === "logits" ? token : row.ids.indexOf(token)];
  return { kind: "token", token, logit, ids, logits, logSum };
}

/** The chosen token's id, from a row with at least one possible token. */
export function choose(row: SampleInput, sampling: TokenSampling): number {
  const { temperature, penalties, draw } = sampling;
  const drawsFromAll = row.kind === "logits" && cutsNothing(sampling);
  if (drawsFromAll && penalties === undefined) return drawFromAll(row.logits, row.logSum, temperature, draw);
  candidates.load(row);
  if (penalties !== undefined) applyPenalties(candidates, penalties);
  if (drawsFromAll) return drawFromAll(candidates.logits.subarray(0, candidates.length), undefined, temperature, draw);
  candidates.dropImpossible();
  if (temperature === 0) return candidates.best();
  const { topK, topP, minP, typicalP, minKeep, xtcThreshold } = sampling;
  keepTopK(candidates, topK, minKeep);
  keepTypical(candidates, typicalP, minKeep, scratch);
  keepTopP(candidates, topP, minKeep);
  keepMinP(candidates, minP, minKeep);
  if (xtcThreshold !== undefined) excludeTopChoices(candidates, xtcThreshold, minKeep);
  return candidates.ids[drawAt(candidates, temperature, draw)];
}

/** The row's tokens after penalties, ranked on demand; valid until the next choice. */
export function loadCandidates(row: SampleInput, penalties: TokenSampling["penalties"]): Candidates {
  candidates.load(row);
  if (penalties !== undefined) applyPenalties(candidates, penalties);
  candidates.dropImpossible();
  return candidates;
}

/** Ids of the highest logits, highest first; among equal ones the lower id first. */
function likeliest(logits: Float32Array, count: number): Int32Array {
  const kept = Math.min(count, logits.length);
  const best = new Int32Array(kept);
  let length = 0;
  for (let id = 0; kept > 0 && id < logits.length; id++) {
    if (length === kept && !(logits[id] > logits[best[kept - 1]])) continue;
    let place = length < kept ? length++ : kept - 1;
    for (; place > 0 && logits[id] > logits[best[place - 1]]; place--) best[place] = best[place - 1];
    best[place] = id;
  }
  return best;
}
