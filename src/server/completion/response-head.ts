// What the responses of OpenAI's endpoints have in common: id, time, model, usage, and the last data of a stream.

import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import type { CompletionModel, CompletionSummary } from "../../completion/completion-model.js";
import { isPlainObject, parsedJson } from "../../plain-object.js";
import type { ServerContext } from "./route-context.js";

/** The data of a stream's last event. */
export const LAST_DATA = "[DONE]";
const ID_BYTES = 12;

/** The first fields of a response. */
export interface ResponseHead {
  readonly id: string;
  readonly created: number;
  /** The served model, whatever name the request used. */
  readonly model: string;
  /**
   * Changes if the same seed may give another result: with the package version, the model file or its context length.
   */
  readonly system_fingerprint: string;
}

/** The first fields of a new response. */
export function responseHead(idPrefix: string, context: ServerContext, model: CompletionModel): ResponseHead {
  return {
    id: makeId(idPrefix),
    created: nowSeconds(),
    model: model.name,
    system_fingerprint: fingerprintOf(context, model),
  };
}

const FINGERPRINT_CHARACTERS = 10;
let version: string | undefined;
/** The last fingerprint and what it was computed from: most servers have one model. */
let last = { hashed: "", fingerprint: "" };

/** Hashes the package version, the model's name and file time, and its context length. */
function fingerprintOf({ options: { pool } }: ServerContext, { name, contextTokens }: CompletionModel): string {
  version ??= packageVersion();
  const created = pool.list().find((listing) => listing.name === name)?.created;
  const hashed = JSON.stringify([version, name, created, contextTokens]);
  if (hashed !== last.hashed) {
    const digest = createHash("sha256").update(hashed).digest("hex");
    last = { hashed, fingerprint: `fp_${digest.slice(0, FINGERPRINT_CHARACTERS)}` };
  }
  return last.fingerprint;
}

/** Empty in a bundle, which has no package.json beside it. */
function packageVersion(): string {
  try {
    const described = parsedJson(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"));
    return isPlainObject(described) ? String(described["version"]) : "";
  } catch {
    return "";
  }
}

/** A new random id. */
export function makeId(prefix: string): string {
  return `${prefix}${randomBytes(ID_BYTES).toString("hex")}`;
}

/** The time in Unix seconds. */
export function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

/** What was reused and what became of drafts, by the names that llama.cpp's server uses; nothing if there was neither. */
export function responseTimings(...summaries: readonly CompletionSummary[]): object {
  const sum = (count: (summary: CompletionSummary) => number): number =>
    summaries.reduce((total, summary) => total + count(summary), 0);
  const [cached, drafted] = [sum(({ cachedTokens }) => cachedTokens), sum(({ draftedTokens }) => draftedTokens)];
  if (cached + drafted === 0) return {};
  const accepted = sum(({ acceptedTokens }) => acceptedTokens);
  return {
    timings: {
      cache_n: cached,
      prompt_n: sum(({ promptTokens }) => promptTokens) - cached,
      ...(drafted === 0 ? {} : { draft_n: drafted, draft_n_accepted: accepted }),
    },
  };
}

/** Token counts of all prompts together. */
export function usageOf(...summaries: readonly CompletionSummary[]): object {
  const sum = (count: (summary: CompletionSummary) => number): number =>
    summaries.reduce((total, summary) => total + count(summary), 0);
  const promptTokens = sum((summary) => summary.promptTokens);
  const generatedTokens = sum((summary) => summary.generatedTokens);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: generatedTokens,
    total_tokens: promptTokens + generatedTokens,
    prompt_tokens_details: { cached_tokens: sum((summary) => summary.cachedTokens) },
  };
}
