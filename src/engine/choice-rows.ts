// The output rows of a choice: what they have to contain, and how a row becomes a token. Most rows are the token itself,
// chosen by the backend; the others are sampled here.

import type { OutputRow, OutputWant } from "../backends/contract.js";
import { BackendError } from "../errors.js";
import { requireFinite } from "../plan/output-row.js";
import type { SampleInput } from "../sampler/candidates.js";
import type { Sampler } from "../sampler/sampler.js";
import type { TokenRow } from "../sampler/token-choice.js";
import type { RowWant } from "./step-reader.js";

/** A row that a token can be sampled from, or the token. */
export type SampledRow = SampleInput | TokenRow;

/** What a choice wants to know of its rows. */
export interface RowOptions {
  /** Number of likeliest tokens with log-probabilities. */
  readonly topLogprobs: number;
  readonly vocabularySize: number;
  /** Whether more is sampled from the row than the sampler's own next token. */
  readonly isShared: boolean;
}

/**
 * What the row after some tokens of a draft has to contain: its token, or as many candidates as the sampler and the
 * log-probabilities need.
 */
export function rowWant(
  sampler: Sampler,
  draftTokens: number,
  { topLogprobs, vocabularySize, isShared }: RowOptions,
): OutputWant {
  const token = isShared ? undefined : sampler.tokenWant(draftTokens, Math.min(topLogprobs, vocabularySize));
  if (token !== undefined) return token;
  const want = sampler.wantAfter(draftTokens);
  if (want.kind !== "candidates" || want.count >= topLogprobs) return want;
  return topLogprobs >= vocabularySize ? { kind: "logits" } : { kind: "candidates", count: topLogprobs };
}

/** What the row after the next one has to contain, its token; undefined if that depends on the next token. */
export function rowWantAfterNext(
  sampler: Sampler,
  { topLogprobs, vocabularySize, isShared }: RowOptions,
): RowWant | undefined {
  const want = isShared ? undefined : sampler.tokenWant(1, Math.min(topLogprobs, vocabularySize));
  const bias = sampler.stepBias();
  return want === undefined ? undefined : { want, ...(bias === undefined ? {} : { bias }) };
}

/** The sampler's token for a row. */
export function sampleRow(sampler: Sampler, row: SampledRow): number {
  return row.kind === "token" ? sampler.take(row) : sampler.sample(fittedRow(sampler, row)).token;
}

/** The sampler takes exactly as many candidates as it requests; a row may have more. */
function fittedRow(sampler: Sampler, input: SampleInput): SampleInput {
  if (input.kind !== "candidates") return input;
  const want = sampler.want();
  if (want.kind !== "candidates" || want.count >= input.ids.length) return input;
  return { ...input, ids: input.ids.subarray(0, want.count), logits: input.logits.subarray(0, want.count) };
}

/** A row of logits or candidates, or a token; throws if it is not finite or of another kind. */
export function sampleable(row: OutputRow): SampledRow {
  const finite = requireFinite(row);
  if (finite.kind === "hidden")
    throw new BackendError("BACKEND_STEP", "[complete] the backend returned a hidden state instead of logits");
  return finite;
}
