// The output rows of a choice: what they have to contain, and how a row becomes the sampler's input.

import type { OutputRow, OutputWant } from "../backends/contract.js";
import { BackendError } from "../errors.js";
import { requireFinite } from "../plan/output-row.js";
import type { SampleInput } from "../sampler/candidates.js";
import type { Sampler } from "../sampler/sampler.js";

/**
 * What the row after some tokens of a draft has to contain: as many candidates as the sampler and the log-probabilities
 * need.
 */
export function rowWant(
  sampler: Sampler,
  draftTokens: number,
  { topLogprobs, vocabularySize }: { readonly topLogprobs: number; readonly vocabularySize: number },
): OutputWant {
  const want = sampler.wantAfter(draftTokens);
  if (want.kind !== "candidates" || want.count >= topLogprobs) return want;
  return topLogprobs >= vocabularySize ? { kind: "logits" } : { kind: "candidates", count: topLogprobs };
}

/** The sampler takes exactly as many candidates as it requests; a row may have more. */
export function fittedRow(sampler: Sampler, input: SampleInput): SampleInput {
  if (input.kind !== "candidates") return input;
  const want = sampler.want();
  if (want.kind !== "candidates" || want.count >= input.ids.length) return input;
  return { ...input, ids: input.ids.subarray(0, want.count), logits: input.logits.subarray(0, want.count) };
}

/** A row of logits or candidates; throws if it is not finite or of another kind. */
export function sampleable(row: OutputRow): SampleInput {
  const finite = requireFinite(row);
  if (finite.kind === "hidden")
    throw new BackendError("BACKEND_STEP", "[complete] the backend returned a hidden state instead of logits");
  return finite;
}
