// Options of `model.generate`: their checks, and the request that they result in.

import { FORMAT_CHECKS, type FormatOptions } from "./response-format.js";
import { MAX_DELAY_MS, MAX_PRIORITY, MAX_TOP_LOGPROBS } from "../engine/completion-request.js";
import { resolveDryBreakers } from "../engine/dry-breakers.js";
import type { CompletionRequest } from "../engine/serving.js";
import { textList } from "../options.js";
import { TokenHistory } from "../sampler/history.js";
import { SAMPLER_DEFAULTS, type SamplerOptions } from "../sampler/options.js";
import { Sampler } from "../sampler/sampler.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { count, flag, type OptionCheck, type OptionChecks, signal, unchecked } from "./checked-options.js";

/** Options of one generation: the sampler's, and those that limit the text. */
export interface GenerateOptions extends Partial<Omit<SamplerOptions, "dryBreakers">>, FormatOptions {
  /** Texts that DRY repetitions do not extend past; line ends, colons, quotes and asterisks by default. */
  readonly dryBreakers?: readonly string[];
  /** Maximum number of tokens to generate; by default as many as the context holds. */
  readonly maxTokens?: number;
  /** Text that ends the generation and is not part of the result. */
  readonly stop?: string | readonly string[];
  /** Aborting ends the generation with the text so far and the finish reason "abort". */
  readonly signal?: AbortSignal;
  /**
   * Ends the generation after this time with the text so far and the finish reason "timeout"; counted from its start,
   * including time in the queue.
   */
  readonly timeoutMs?: number;
  /** Continues past end-of-sequence tokens. */
  readonly ignoreEndOfGeneration?: boolean;
  /**
   * Whether the text of special tokens in a prompt becomes these tokens; true by default, because a prompt is the
   * program's own text. Use false for text from users or files.
   */
  readonly parseSpecial?: boolean;
  /** Adds log-probabilities to deltas: of each token, and of this many of the likeliest alternatives (0 to 20). */
  readonly topLogprobs?: number;
  /** From -100 to 100, 0 by default. Generations of a higher priority are started first. */
  readonly priority?: number;
}

const SAMPLER_CHECKS = Object.fromEntries(Object.keys(SAMPLER_DEFAULTS).map((name) => [name, unchecked])) as Record<
  keyof SamplerOptions,
  OptionCheck
>;

/** The checks of `model.generate`'s options. */
export const GENERATE_CHECKS: OptionChecks<GenerateOptions> = {
  // The sampler checks its own options.
  ...SAMPLER_CHECKS,
  ...FORMAT_CHECKS,
  dryBreakers: (where, option, value) => value === undefined || textList(where, option, value),
  maxTokens: count(1, Number.MAX_SAFE_INTEGER),
  stop: (where, option, value) => textList(where, option, stopList(value)),
  signal,
  timeoutMs: count(1, MAX_DELAY_MS),
  ignoreEndOfGeneration: flag,
  parseSpecial: flag,
  topLogprobs: count(0, MAX_TOP_LOGPROBS),
  priority: count(-MAX_PRIORITY, MAX_PRIORITY),
};

/** For samplers that only check options. */
const NO_HISTORY = new TokenHistory(0);

/** The parts of a model that a request depends on. */
interface GeneratingModel {
  readonly vocabularySize: number;
  /** Throws if the file has no vocabulary. */
  readonly tokenizer: Tokenizer;
}

/** Converts a prompt and checked options to the engine's request. Throws if an option of the sampler is invalid. */
export function completionRequest(
  prompt: Int32Array,
  options: GenerateOptions,
  model: GeneratingModel,
): CompletionRequest {
  const { maxTokens, stop, signal: ending, timeoutMs, dryBreakers, parseSpecial: _, ...rest } = options;
  const { ignoreEndOfGeneration = false, topLogprobs, priority, ...other } = rest;
  const { schema: _schema, regex: _regex, grammar: _grammar, ...sampling } = other;
  const stops = stopList(stop);
  // Tokens can be continued without a vocabulary; only text needs one.
  if (stops.length > 0) void model.tokenizer;
  // Checks the options of the sampler, and draws the seed if none is given.
  const { seed } = new Sampler(sampling, { vocabularySize: model.vocabularySize }, NO_HISTORY);
  const breakers = dryBreakers !== undefined && (sampling.dryMultiplier ?? 0) > 0 ? dryBreakers : undefined;
  return {
    prompt,
    stop: stops,
    ignoreEndOfGeneration,
    sampling: {
      ...sampling,
      ...(breakers === undefined ? {} : { dryBreakers: resolveDryBreakers(breakers, model.tokenizer) }),
      seed,
    },
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(timeoutMs === undefined ? {} : { timeLimitMs: timeoutMs }),
    ...(topLogprobs === undefined ? {} : { topLogprobs }),
    ...(priority === undefined ? {} : { priority }),
    ...(ending === undefined ? {} : { signal: ending }),
  };
}

/** One stop string or several as a list; other values are left to the check. */
export function stopList<Value>(stop: Value): Value extends readonly string[] ? Value : readonly string[] {
  return (typeof stop === "string" ? [stop] : (stop ?? [])) as never;
}
