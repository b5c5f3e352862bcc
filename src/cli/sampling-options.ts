// The sampling options. Ranges and defaults are the sampler's own, so the two cannot drift apart.

import { resolveSamplerOptions, SAMPLER_DEFAULTS, SAMPLER_RANGES, type SamplerOptions } from "../sampler/options.js";
import { parseNumber } from "./number-value.js";
import { type NumberOption, type OptionTable, type OptionValues, wrongValue } from "./option-table.js";

const SECTION = "sampling";

type NumericOption = keyof typeof SAMPLER_RANGES;

function sampling(key: NumericOption, description: string, hint?: string): NumberOption {
  const range = SAMPLER_RANGES[key];
  return {
    kind: range.whole === true ? "count" : "number",
    placeholder: range.whole === true ? "COUNT" : "NUMBER",
    section: SECTION,
    range,
    description,
    fallback: SAMPLER_DEFAULTS[key],
    ...(hint === undefined ? {} : { hint }),
  };
}

/** The sampler's option that each command-line option sets. */
export const SAMPLER_KEYS = {
  temp: "temperature",
  "top-k": "topK",
  "top-p": "topP",
  "min-p": "minP",
  typical: "typicalP",
  "repeat-penalty": "repeatPenalty",
  "presence-penalty": "presencePenalty",
  "frequency-penalty": "frequencyPenalty",
  "repeat-last-n": "penaltyTokens",
  "dry-multiplier": "dryMultiplier",
  "dry-base": "dryBase",
  "dry-allowed-length": "dryAllowedLength",
  "dry-penalty-last-n": "dryPenaltyTokens",
  "xtc-probability": "xtcProbability",
  "xtc-threshold": "xtcThreshold",
  mirostat: "mirostat",
  "mirostat-tau": "mirostatTau",
  "mirostat-eta": "mirostatEta",
  seed: "seed",
} as const satisfies Readonly<Record<string, keyof SamplerOptions>>;

/** The sampling options of the command line. */
export const SAMPLING_OPTIONS = {
  temp: sampling("temperature", "temperature; 0 is greedy"),
  seed: {
    kind: "count",
    short: "s",
    placeholder: "NUMBER",
    section: SECTION,
    range: { from: 0, to: Number.MAX_SAFE_INTEGER },
    description: "the same seed gives the same text",
    fallback: "random, printed in the summary",
    hint: "leave it out for a random one",
  },
  "top-k": sampling("topK", "keep this many of the most likely tokens; 0 is off"),
  "top-p": sampling("topP", "keep the most likely tokens up to this cumulative probability; 1 is off"),
  "min-p": sampling("minP", "drop tokens below this fraction of the best token's probability; 0 is off"),
  typical: sampling("typicalP", "locally typical sampling up to this cumulative probability; 1 is off"),
  "repeat-penalty": sampling("repeatPenalty", "divide the logits of recent tokens; 1 is off"),
  "presence-penalty": sampling("presencePenalty", "subtract this from the logit of each recent token; 0 is off"),
  "frequency-penalty": sampling("frequencyPenalty", "subtract this for each occurrence of a recent token; 0 is off"),
  "repeat-last-n": sampling("penaltyTokens", "tokens that the three penalties consider; -1 is all, 0 is off"),
  "dry-multiplier": sampling("dryMultiplier", "DRY penalty on repeated sequences: strength; 0 is off"),
  "dry-base": sampling("dryBase", "DRY: growth of the penalty with the length of the repetition"),
  "dry-allowed-length": sampling("dryAllowedLength", "DRY: the longest sequence that may be repeated"),
  "dry-penalty-last-n": sampling("dryPenaltyTokens", "DRY: tokens that it considers; -1 is all, 0 is off"),
  "xtc-probability": sampling("xtcProbability", "XTC, excluding top choices: probability; 0 is off"),
  "xtc-threshold": sampling("xtcThreshold", "XTC: excludes all but the least likely token above this probability"),
  mirostat: sampling("mirostat", "2 is Mirostat 2, which keeps the surprise at mirostat-tau; 0 is off"),
  "mirostat-tau": sampling("mirostatTau", "Mirostat: target surprise in bits"),
  "mirostat-eta": sampling("mirostatEta", "Mirostat: learning rate"),
  "logit-bias": {
    kind: "list",
    placeholder: "ID=VALUE",
    section: SECTION,
    description: "add VALUE to the logit of token ID; -inf bans it (repeatable)",
  },
} as const satisfies OptionTable;

/** For the texts of commands that have these options. */
export const SAMPLING_NOTE =
  "Sampling options that are not given are those that the model's file recommends, else the defaults below.";

/** The values of `SAMPLING_OPTIONS`. */
type SamplingValues = OptionValues<typeof SAMPLING_OPTIONS>;

/** The options that were given, checked; the others are left out. */
export function samplerOptions(command: string, values: SamplingValues): Partial<Omit<SamplerOptions, "dryBreakers">> {
  const numbers = Object.entries(SAMPLER_KEYS).flatMap(([name, key]) => {
    const value = values[name as keyof typeof SAMPLER_KEYS];
    return value === undefined ? [] : [[key, value] as const];
  });
  const options: Partial<Omit<SamplerOptions, "dryBreakers">> = {
    ...Object.fromEntries(numbers),
    logitBias: new Map(values["logit-bias"].map((entry) => biasEntry(command, entry))),
  };
  // Checked now rather than after a model has been opened.
  resolveSamplerOptions(options);
  return options;
}

const BIAS_ENTRY = /^(?<id>\d+)=(?<value>.+)$/;

function biasEntry(command: string, text: string): readonly [number, number] {
  const { id, value } = BIAS_ENTRY.exec(text)?.groups ?? {};
  const token = parseNumber(id ?? "", { from: 0, to: 2 ** 31 - 1 }, true);
  const bias = value === "-inf" ? Number.NEGATIVE_INFINITY : parseNumber(value ?? "", { from: -1e30, to: 1e30 }, false);
  if (typeof token === "number" && typeof bias === "number") return [token, bias];
  throw wrongValue(command, "logit-bias", "ID=VALUE, a token id and a number or -inf", `"${text}"`);
}
