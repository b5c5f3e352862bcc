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

export const SAMPLING_OPTIONS = {
  temp: sampling("temperature", "temperature; 0 always takes the most likely token"),
  seed: {
    kind: "count",
    short: "s",
    placeholder: "NUMBER",
    section: SECTION,
    range: { from: 0, to: Number.MAX_SAFE_INTEGER },
    description: "the same seed gives the same text",
    fallback: "a random one, which the summary names",
    hint: "leave it out for a random one",
  },
  "top-k": sampling("topK", "keep the most likely tokens only; 0 is off"),
  "top-p": sampling("topP", "keep the likeliest tokens that make up this share; 1 is off"),
  "min-p": sampling("minP", "drop tokens below this share of the likeliest; 0 is off"),
  typical: sampling("typicalP", "keep the tokens of typical surprise that make up this share; 1 is off"),
  "repeat-penalty": sampling("repeatPenalty", "divide the logits of tokens seen before; 1 is off"),
  "presence-penalty": sampling("presencePenalty", "take this from the logit of each token seen before; 0 is off"),
  "frequency-penalty": sampling("frequencyPenalty", "take this for each time a token was seen; 0 is off"),
  "repeat-last-n": sampling("penaltyTokens", "how far back the three penalties look; -1 is all, 0 is off"),
  "dry-multiplier": sampling("dryMultiplier", "DRY, against repeated sequences: its strength; 0 is off"),
  "dry-base": sampling("dryBase", "DRY: growth of the penalty with the sequence's length"),
  "dry-allowed-length": sampling("dryAllowedLength", "DRY: the longest sequence that may be repeated"),
  "dry-penalty-last-n": sampling("dryPenaltyTokens", "DRY: how far back it looks; -1 is all, 0 is off"),
  "xtc-probability": sampling("xtcProbability", "XTC, leaving out top choices: how often; 0 is off"),
  "xtc-threshold": sampling("xtcThreshold", "XTC: leaves out all but the last token above this share"),
  mirostat: sampling("mirostat", "2 holds the surprise at mirostat-tau; 0 is off"),
  "mirostat-tau": sampling("mirostatTau", "mirostat: the surprise to hold, in bits"),
  "mirostat-eta": sampling("mirostatEta", "mirostat: how fast it adapts"),
  "logit-bias": {
    kind: "list",
    placeholder: "ID=VALUE",
    section: SECTION,
    description: "add VALUE to the logit of token ID; -inf bans it (repeatable)",
  },
} as const satisfies OptionTable;

export type SamplingValues = OptionValues<typeof SAMPLING_OPTIONS>;

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
