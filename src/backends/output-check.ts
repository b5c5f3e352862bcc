// Checks of the kernels that turn logits into what output rows ask for: candidates, sums and tokens. The same step is
// computed again for each kind of wish, and its answers are compared with what the host makes of the logits that the
// device itself has computed, so that nothing of the matmul before matters.

import type { OutputRow, OutputWant, TokenSampling } from "./contract.js";
import { chooseToken } from "../sampler/token-choice.js";

type LogitsRow = Extract<OutputRow, { readonly kind: "logits" }>;

const PLAIN: TokenSampling = { temperature: 1, topK: 0, typicalP: 1, topP: 1, minP: 0, minKeep: 1, draw: 0.5 };
/** Each way of choosing a token has kernels of its own; numbers are drawn from all parts of a distribution. */
const SAMPLINGS: readonly TokenSampling[] = [
  { ...PLAIN, temperature: 0 },
  ...[0.13, 0.51, 0.87].flatMap((draw) => [
    { ...PLAIN, temperature: 0.8, draw },
    { ...PLAIN, topK: 40, topP: 0.95, draw },
    { ...PLAIN, topP: 0.9, draw },
  ]),
];
const CANDIDATES = 20;
const LIKELIEST = 5;
/** Of log-sums, and of logits that were copied. */
const TOLERANCE = 1e-3;
/** A number that is drawn next to the boundary of two tokens may choose either. */
const MAX_NEAR_BOUNDARY = 0.34;

/** The wishes to compute a step for, after the one for its logits. */
export const OUTPUT_WANTS: readonly OutputWant[] = [
  { kind: "candidates", count: CANDIDATES },
  ...SAMPLINGS.map((sampling) => ({ kind: "token" as const, sampling, top: LIKELIEST })),
];

/** What is wrong with the answers to `OUTPUT_WANTS`, given the rows of logits; undefined if nothing is. */
export function outputFault(
  logits: readonly OutputRow[],
  answers: readonly (readonly OutputRow[])[],
): string | undefined {
  let others = 0;
  let tokens = 0;
  for (const [index, whole] of logits.entries()) {
    if (whole.kind !== "logits") continue;
    if (Math.abs(whole.logSum - logSumOf(whole)) > TOLERANCE) return "the sum of a row's exponentials is wrong";
    for (const [turn, want] of OUTPUT_WANTS.entries()) {
      const found = answers[turn][index];
      const fault = rankingFault(whole, found, want.kind === "candidates" ? CANDIDATES : LIKELIEST);
      if (fault !== undefined) return fault;
      if (want.kind !== "token" || found.kind !== "token") continue;
      tokens++;
      if (found.token !== chooseToken(want, whole).token) others++;
    }
  }
  return others > Math.max(1, tokens * MAX_NEAR_BOUNDARY) ? `${others} of ${tokens} tokens are others` : undefined;
}

function rankingFault(whole: LogitsRow, found: OutputRow, count: number): string | undefined {
  if (found.kind !== "candidates" && found.kind !== "token") return `a row is ${found.kind}`;
  if (Math.abs(found.logSum - whole.logSum) > TOLERANCE) return "the sum of a row's exponentials is wrong";
  const expected = chooseToken({ kind: "token", sampling: SAMPLINGS[0], top: count }, whole);
  if (found.ids.length !== expected.ids.length) return "a row has another number of candidates";
  for (const [rank, id] of found.ids.entries()) {
    const isRight =
      Math.abs(found.logits[rank] - expected.logits[rank]) <= TOLERANCE &&
      Math.abs(found.logits[rank] - whole.logits[id]) <= TOLERANCE;
    if (!isRight) return "candidates are not the most likely tokens";
  }
  return undefined;
}

function logSumOf({ logits }: LogitsRow): number {
  let highest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > highest) highest = logit;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - highest);
  return highest + Math.log(sum);
}
