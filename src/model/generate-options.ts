// What `model.generate` can be asked for, and the check of it.

import { FORMAT_CHECKS, type FormatOptions } from "./response-format.js";
import { optionalCount, textList } from "../options.js";
import { SAMPLER_DEFAULTS, type SamplerOptions } from "../sampler/options.js";
import { count, flag, type OptionCheck, type OptionChecks, signal, unchecked } from "./checked-options.js";

/** The longest that timers wait. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
const MAX_PRIORITY = 100;
const MAX_TOP_LOGPROBS = 20;

/** Options of one generation; the sampler's options stand beside those that end it. */
export interface GenerateOptions extends Partial<Omit<SamplerOptions, "dryBreakers">>, FormatOptions {
  /** Texts past which DRY follows no repetition back; line ends, colons, quotes and stars by default. */
  readonly dryBreakers?: readonly string[];
  /** The most tokens to generate; by default as many as the context holds. */
  readonly maxTokens?: number;
  /** Text that ends the generation and is not part of it. */
  readonly stop?: string | readonly string[];
  /** Aborting it ends the generation with the text so far and the finish reason "abort". */
  readonly signal?: AbortSignal;
  /**
   * Ends the generation with the text so far and the finish reason "timeout"; counted from its start, queueing
   * included.
   */
  readonly timeoutMs?: number;
  /** Goes on past end-of-sequence tokens. */
  readonly ignoreEndOfGeneration?: boolean;
  /**
   * Whether the text of special tokens in a prompt becomes these tokens; true by default, as a prompt is the program's
   * own text. Use false for text from users or files.
   */
  readonly parseSpecial?: boolean;
  /** Adds log-probabilities to deltas: of each token, and of this many of the likeliest ones beside it (0 to 20). */
  readonly topLogprobs?: number;
  /** From -100 to 100, 0 by default. Generations of a higher priority are started first. */
  readonly priority?: number;
}

const SAMPLER_CHECKS = Object.fromEntries(Object.keys(SAMPLER_DEFAULTS).map((name) => [name, unchecked])) as Record<
  keyof SamplerOptions,
  OptionCheck
>;

export const GENERATE_CHECKS: OptionChecks<GenerateOptions> = {
  // The sampler checks its own options.
  ...SAMPLER_CHECKS,
  ...FORMAT_CHECKS,
  dryBreakers: (where, option, value) => value === undefined || textList(where, option, value),
  maxTokens: count(1, Number.MAX_SAFE_INTEGER),
  stop: (where, option, value) => textList(where, option, stopList(value)),
  signal,
  timeoutMs: count(1, MAX_TIMEOUT_MS),
  ignoreEndOfGeneration: flag,
  parseSpecial: flag,
  topLogprobs: count(0, MAX_TOP_LOGPROBS),
  priority: (where, option, value) => optionalCount(where, option, value, -MAX_PRIORITY, MAX_PRIORITY),
};

/** One stop string or several. */
export function stopList<Value>(stop: Value): Value extends readonly string[] ? Value : readonly string[] {
  return (typeof stop === "string" ? [stop] : (stop ?? [])) as never;
}
