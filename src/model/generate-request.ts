// From a prompt and the options of `generate` to a request of the engine, checked as a whole before anything runs.

import { resolveDryBreakers } from "../engine/dry-breakers.js";
import type { CompletionRequest } from "../engine/serving.js";
import { ContextError } from "../errors.js";
import type { GrammarSpec } from "../grammar/grammar-spec.js";
import { optionText, refuseValue } from "../options.js";
import { Sampler } from "../sampler/sampler.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { type GenerateOptions, stopList } from "./generate-options.js";
import { formatOf } from "./response-format.js";

/** The part of a model that a request is checked against. */
export interface RequestModel {
  readonly contextTokens: number;
  readonly vocabularySize: number;
  readonly tokenizer: Tokenizer;
}

/** A request, and the form that its text must have. */
export interface GenerateRequest {
  readonly request: CompletionRequest;
  readonly format: GrammarSpec | undefined;
}

/** Translates checked options; throws if the prompt is empty or leaves no room for a token. */
export function generateRequest(model: RequestModel, prompt: Int32Array, options: GenerateOptions): GenerateRequest {
  const { maxTokens, stop, signal, timeoutMs, dryBreakers, parseSpecial: _parse, ...rest } = options;
  const { ignoreEndOfGeneration = false, topLogprobs, priority, schema, regex, grammar, ...sampling } = rest;
  const format = formatOf("generate", { schema, regex, grammar });
  const stops = stopList(stop);
  // Tokens can be continued without a vocabulary; only text needs one.
  if (stops.length > 0) void model.tokenizer;
  if (prompt.length === 0) refuseValue("generate", "prompt", "at least one token", "none");
  if (prompt.length >= model.contextTokens)
    throw tooLong(prompt.length, model.contextTokens, ", one of them for the answer; shorten the prompt");
  // Checks the sampler's options, and draws the seed if none is given.
  const { seed } = new Sampler(sampling, { vocabularySize: model.vocabularySize });
  const breakers =
    dryBreakers !== undefined && (sampling.dryMultiplier ?? 0) > 0
      ? { dryBreakers: resolveDryBreakers(dryBreakers, model.tokenizer) }
      : {};
  const request: CompletionRequest = {
    prompt,
    stop: stops,
    ignoreEndOfGeneration,
    sampling: { ...sampling, ...breakers, seed },
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(timeoutMs === undefined ? {} : { timeLimitMs: timeoutMs }),
    ...(topLogprobs === undefined ? {} : { topLogprobs }),
    ...(priority === undefined ? {} : { priority }),
    ...(signal === undefined ? {} : { signal }),
  };
  return { request, format };
}

/** The error for more tokens than the context holds. */
export function tooLong(tokens: number, contextTokens: number, rest: string): ContextError {
  return new ContextError(
    "CONTEXT_OVERFLOW",
    `[context] there are ${tokens} tokens and the context holds ${contextTokens}${rest} or open the model with a larger context (${optionText("contextTokens")})`,
    { details: { tokens, contextTokens } },
  );
}
