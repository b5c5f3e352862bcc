// The sampler's options: names, defaults and the check, done once. The defaults are those that users of GGUF models
// expect; unknown keys and invalid values are refused, so that a typing mistake never silently changes the sampling.

import { refuseUnknownKeys, refuseValue } from "../options.js";

/** How the next token is chosen. Every option has a default. */
export interface SamplerOptions {
  /**
   * Divides the logits. 0 is greedy: the most likely token after mask, bias and penalties, the lowest id among equals.
   */
  readonly temperature: number;
  /** Keeps the `topK` most likely tokens; 0 is off. */
  readonly topK: number;
  /** Keeps the smallest set of most likely tokens whose probabilities reach `topP`; 1 is off. */
  readonly topP: number;
  /** Keeps tokens at least `minP` times as likely as the most likely one; 0 is off. */
  readonly minP: number;
  /** Keeps the most typical tokens until their probabilities reach `typicalP`; 1 is off. */
  readonly typicalP: number;
  /** Divides positive and multiplies negative logits of recent tokens; 1 is off. */
  readonly repeatPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  /** How many of the last tokens the three penalties consider; -1 is all, 0 is off. */
  readonly penaltyTokens: number;
  /** The strength of the DRY penalty on repeated passages; 0 is off. */
  readonly dryMultiplier: number;
  readonly dryBase: number;
  readonly dryAllowedLength: number;
  /** How many of the last tokens DRY considers; -1 is all, 0 is off. */
  readonly dryPenaltyTokens: number;
  /** Token sequences that a repetition does not extend past. */
  readonly dryBreakers: readonly (readonly number[])[];
  /** The probability with which XTC removes the most likely tokens; 0 is off. */
  readonly xtcProbability: number;
  readonly xtcThreshold: number;
  readonly mirostat: 0 | 2;
  /** The target surprise of Mirostat, in bits. */
  readonly mirostatTau: number;
  readonly mirostatEta: number;
  /** The seed of the random draws; undefined chooses one at random, which `Sampler.seed` returns. */
  readonly seed: number | undefined;
  /** Added to the logits of these tokens before anything else; -Infinity bans a token. */
  readonly logitBias: ReadonlyMap<number, number>;
  /** The fewest candidates that a truncating stage may leave. */
  readonly minKeep: number;
}

/** The default of every sampling option. */
export const SAMPLER_DEFAULTS: SamplerOptions = Object.freeze({
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  typicalP: 1,
  repeatPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  penaltyTokens: 64,
  dryMultiplier: 0,
  dryBase: 1.75,
  dryAllowedLength: 2,
  dryPenaltyTokens: -1,
  dryBreakers: [],
  xtcProbability: 0,
  xtcThreshold: 0.1,
  mirostat: 0,
  mirostatTau: 5,
  mirostatEta: 0.1,
  seed: undefined,
  logitBias: new Map<number, number>(),
  minKeep: 1,
});

/** The largest penalty: more would change nothing, and the bound keeps sums finite. */
const LARGEST_PENALTY = 1000;
/** The smallest repeat penalty: logits are divided by it, and must stay finite. */
const SMALLEST_REPEAT_PENALTY = 0.001;
/** The longest breaker. A breaker is a word or two; longer ones only make every step slower. */
const LONGEST_BREAKER_TOKENS = 64;
const LARGEST_TOKEN = 2 ** 31 - 1;

interface Range {
  readonly from: number;
  readonly to: number;
  readonly above?: true;
  readonly whole?: true;
}

const COUNT: Range = { from: 0, to: LARGEST_TOKEN, whole: true };
const WINDOW: Range = { from: -1, to: LARGEST_TOKEN, whole: true };
const SHARE: Range = { from: 0, to: 1 };
const PENALTY: Range = { from: -LARGEST_PENALTY, to: LARGEST_PENALTY };

/** A sampling option that is a number. */
export type NumericSamplerOption = {
  [K in keyof SamplerOptions]: SamplerOptions[K] extends number ? K : never;
}[keyof SamplerOptions];

/** The valid range of every numeric sampling option. */
export const SAMPLER_RANGES: { readonly [K in NumericSamplerOption]: Range } = {
  temperature: { from: 0, to: 1e6 },
  topK: COUNT,
  topP: SHARE,
  minP: SHARE,
  typicalP: SHARE,
  repeatPenalty: { from: SMALLEST_REPEAT_PENALTY, to: LARGEST_PENALTY },
  presencePenalty: PENALTY,
  frequencyPenalty: PENALTY,
  penaltyTokens: WINDOW,
  dryMultiplier: { from: 0, to: LARGEST_PENALTY },
  dryBase: { from: 1, to: LARGEST_PENALTY },
  dryAllowedLength: { from: 1, to: LARGEST_TOKEN, whole: true },
  dryPenaltyTokens: WINDOW,
  xtcProbability: SHARE,
  xtcThreshold: SHARE,
  mirostat: { from: 0, to: 2, whole: true },
  mirostatTau: { from: 0, to: 100, above: true },
  mirostatEta: { from: 0, to: 10, above: true },
  minKeep: { from: 1, to: LARGEST_TOKEN, whole: true },
};

/** Checks every option and fills in the defaults; a key whose value is undefined counts as absent. */
export function resolveSamplerOptions(options: Partial<SamplerOptions>): SamplerOptions {
  refuseUnknownKeys("sampler", options, Object.keys(SAMPLER_DEFAULTS));
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const resolved: SamplerOptions = { ...SAMPLER_DEFAULTS, ...given };
  for (const [key, range] of Object.entries(SAMPLER_RANGES) as [NumericSamplerOption, Range][]) {
    if (!within(resolved[key], range)) refuseValue("sampler", key, describe(range), resolved[key]);
  }
  if (!isSamplerNumber("mirostat", resolved.mirostat))
    refuseValue("sampler", "mirostat", "0 (off) or 2", resolved.mirostat);
  if (resolved.seed !== undefined && !(Number.isSafeInteger(resolved.seed) && resolved.seed >= 0)) {
    refuseValue("sampler", "seed", "a whole number from 0 to 2^53 - 1", resolved.seed);
  }
  checkBias(resolved.logitBias);
  checkBreakers(resolved.dryBreakers);
  return resolved;
}

/** Whether the sampler takes this number for an option. */
export function isSamplerNumber(option: NumericSamplerOption, value: number): boolean {
  // Mirostat 1 is an older algorithm with the same purpose.
  return within(value, SAMPLER_RANGES[option]) && !(option === "mirostat" && value === 1);
}

function checkBias(bias: unknown): void {
  if (!(bias instanceof Map)) refuseValue("sampler", "logitBias", "a Map from token id to bias", bias);
  for (const [id, value] of bias as Map<unknown, unknown>) {
    if (!within(id, COUNT)) refuseValue("sampler", "logitBias", "token ids as keys", id);
    // A huge bias is as good as +Infinity, which would turn sums into NaN.
    if (typeof value !== "number" || Number.isNaN(value) || value > 1e30) {
      refuseValue("sampler", "logitBias", `a number or -Infinity for token ${String(id)}`, value);
    }
  }
}

function checkBreakers(breakers: unknown): void {
  if (!Array.isArray(breakers)) refuseValue("sampler", "dryBreakers", "an array of token sequences", breakers);
  for (const breaker of breakers as unknown[]) {
    const fits = Array.isArray(breaker) && breaker.length >= 1 && breaker.length <= LONGEST_BREAKER_TOKENS;
    if (!fits || !breaker.every((id: unknown) => within(id, COUNT))) {
      refuseValue("sampler", "dryBreakers", `sequences of 1 to ${LONGEST_BREAKER_TOKENS} token ids`, breaker);
    }
  }
}

function within(value: unknown, range: Range): boolean {
  if (typeof value !== "number" || !(value >= range.from && value <= range.to)) return false;
  if (range.above === true && value === range.from) return false;
  return range.whole !== true || Number.isInteger(value);
}

function describe(range: Range): string {
  const kind = range.whole === true ? "a whole number" : "a number";
  return `${kind} ${range.above === true ? "above" : "from"} ${range.from}${range.above === true ? ", at most" : " to"} ${range.to}`;
}
