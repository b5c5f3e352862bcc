// A request with every field checked and defaults filled in; requests that cannot fit are refused.

import { ContextError, ServingError } from "../errors.js";
import { optionalCount, optionalFlag, optionalSignal, refuseUnknownKeys, refuseValue, textList } from "../options.js";
import { checkTokens } from "../plan/step-check.js";
import type { SamplerOptions } from "../sampler/options.js";
import type { CompletionRequest, TokenConstraint } from "./serving.js";

const REQUEST_FIELDS = [
  "prompt",
  "maxTokens",
  "sampling",
  "stop",
  "choices",
  "topLogprobs",
  "constraint",
  "priority",
  "timeLimitMs",
  "ignoreEndOfGeneration",
  "printedTokens",
  "checkpoints",
  "scriptedTokens",
  "signal",
] as const satisfies readonly (keyof CompletionRequest)[];

/** Maximum of `topLogprobs`: each one is searched among all candidates. */
export const MAX_TOP_LOGPROBS = 20;
/** Maximum priority: each unit is worth hundreds of steps of waiting, so more would make no difference. */
export const MAX_PRIORITY = 100;
/** The longest delay of a timer. */
export const MAX_DELAY_MS = 2 ** 31 - 1;
/** Each checkpoint takes a state slot, which another sequence could use. */
const MAX_CHECKPOINT_HINTS = 16;
/** Each stop string is matched against every character. */
const MAX_STOPS = 64;
/** Text is held back for as long as it could become a stop string. */
const MAX_STOP_CHARACTERS = 65_536;

/** The limits of an engine that a request has to respect. */
export interface RequestLimits {
  readonly vocabularySize: number;
  /** Maximum positions of one sequence; no more than the KV cache may hold. */
  readonly contextTokens: number;
  /** Maximum number of sequences in a batch. */
  readonly sequences: number;
}

/** A checked request with defaults filled in. */
export interface ResolvedRequest {
  readonly prompt: Int32Array;
  readonly maxTokens: number;
  readonly sampling: Partial<SamplerOptions>;
  readonly stop: readonly string[];
  readonly choices: number;
  readonly topLogprobs: number | undefined;
  readonly constraint: TokenConstraint | undefined;
  readonly priority: number;
  readonly timeLimitMs: number | undefined;
  readonly ignoreEndOfGeneration: boolean;
  readonly printedTokens: ReadonlySet<number> | undefined;
  readonly checkpoints: readonly number[];
  readonly scriptedTokens: Int32Array | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Checks a request and fills in defaults; throws an `OptionError` or a `ServingError`. */
export function resolveRequest(request: CompletionRequest, limits: RequestLimits): ResolvedRequest {
  refuseUnknownKeys("complete", request, REQUEST_FIELDS);
  const { prompt, sampling = {}, stop = [], constraint, printedTokens } = request;
  checkPrompt(prompt, limits);
  const priority = optionalCount("complete", "priority", request.priority, -MAX_PRIORITY, MAX_PRIORITY) ?? 0;
  return {
    prompt,
    maxTokens: roomFor(
      prompt.length,
      optionalCount("complete", "maxTokens", request.maxTokens, 1, Number.MAX_SAFE_INTEGER),
      limits,
    ),
    sampling,
    stop: stopTexts(stop),
    choices: optionalCount("complete", "choices", request.choices, 1, limits.sequences) ?? 1,
    topLogprobs: optionalCount("complete", "topLogprobs", request.topLogprobs, 0, MAX_TOP_LOGPROBS),
    constraint,
    priority,
    timeLimitMs: optionalCount("complete", "timeLimitMs", request.timeLimitMs, 1, MAX_DELAY_MS),
    ignoreEndOfGeneration: optionalFlag("complete", "ignoreEndOfGeneration", request.ignoreEndOfGeneration) ?? false,
    printedTokens:
      printedTokens === undefined || printedTokens instanceof Set
        ? printedTokens
        : refuseValue("complete", "printedTokens", "a Set of token ids", printedTokens),
    checkpoints: checkpointHints(request.checkpoints, prompt.length),
    scriptedTokens: request.scriptedTokens,
    signal: optionalSignal("complete", "signal", request.signal),
  };
}

/** Checks the tokens of one sequence, with room for at least one more unless `rest` is 0. */
export function checkPrompt(prompt: Int32Array, { vocabularySize, contextTokens }: RequestLimits, rest = 1): void {
  if (!(prompt instanceof Int32Array)) refuseValue("complete", "prompt", "an Int32Array of token ids", prompt);
  if (prompt.length === 0) {
    throw new ServingError("SERVING_REQUEST", "[complete] prompt: expected at least one token, found none", {
      details: { tokens: 0 },
    });
  }
  if (prompt.length + rest > contextTokens) {
    const answer = rest > 0 ? ", one of them for the answer" : "";
    throw new ContextError(
      "CONTEXT_OVERFLOW",
      `[complete] the prompt has ${prompt.length} tokens and the context holds ${contextTokens}${answer}; shorten the prompt or serve the model with a larger context`,
      { details: { tokens: prompt.length, contextTokens } },
    );
  }
  checkTokens(prompt, vocabularySize);
}

/** The error for a request that can never fit the KV cache. */
export function tooLarge(tokens: number, cacheTokens: number): ServingError {
  return new ServingError(
    "SERVING_TOO_LARGE",
    `[complete] ${tokens} tokens can never fit the KV cache, which holds ${cacheTokens}; request fewer or serve the model with a larger KV cache`,
    { details: { tokens, cacheTokens } },
  );
}

/** Requesting more than the context holds is valid: the text then ends with the context. */
function roomFor(promptTokens: number, wanted: number | undefined, { contextTokens }: RequestLimits): number {
  return Math.min(wanted ?? Number.MAX_SAFE_INTEGER, contextTokens - promptTokens);
}

function checkpointHints(hints: readonly number[] = [], promptTokens: number): readonly number[] {
  if (!Array.isArray(hints) || hints.length > MAX_CHECKPOINT_HINTS)
    return refuseValue("complete", "checkpoints", `at most ${MAX_CHECKPOINT_HINTS} numbers of tokens`, hints);
  for (const hint of hints as readonly unknown[]) {
    const isWithin = Number.isInteger(hint) && Number(hint) >= 0 && Number(hint) <= promptTokens;
    if (!isWithin) refuseValue("complete", "checkpoints", `whole numbers up to ${promptTokens}`, hint);
  }
  return hints;
}

function stopTexts(stop: readonly string[]): readonly string[] {
  const texts = textList("complete", "stop", stop);
  if (texts.length > MAX_STOPS) refuseValue("complete", "stop", `at most ${MAX_STOPS} texts`, texts.length);
  const characters = texts.reduce((total, { length }) => total + length, 0);
  if (characters > MAX_STOP_CHARACTERS)
    refuseValue("complete", "stop", `at most ${MAX_STOP_CHARACTERS} characters in all`, characters);
  return texts;
}
