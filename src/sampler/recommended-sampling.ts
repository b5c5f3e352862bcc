// The sampling that a model's file recommends: its keys `general.sampling.*`, as llama.cpp names them. They are the
// defaults where a caller sets nothing. Invariant: a recommendation never stops a model from running, so a value that
// the sampler cannot use is left out, and reported as such by `inspect`.

import type { GgufMetadata } from "../gguf/metadata.js";
import { isSamplerNumber, type NumericSamplerOption, type SamplerOptions } from "./options.js";

/** The start of the keys that recommend a sampling. */
const SAMPLING_PREFIX = "general.sampling.";

/** The option that each key sets. The order of the stages is fixed here, so `sequence` is not among them. */
const OPTION_OF_KEY = {
  temp: "temperature",
  top_k: "topK",
  top_p: "topP",
  min_p: "minP",
  xtc_probability: "xtcProbability",
  xtc_threshold: "xtcThreshold",
  penalty_repeat: "repeatPenalty",
  penalty_last_n: "penaltyTokens",
  mirostat: "mirostat",
  mirostat_tau: "mirostatTau",
  mirostat_eta: "mirostatEta",
} as const satisfies Readonly<Record<string, NumericSamplerOption>>;

/** The largest number of digits that two different 32-bit floats need. */
const FLOAT32_DIGITS = 9;

/** What a file recommends. */
export interface RecommendedSampling {
  readonly options: Partial<SamplerOptions>;
  /** Keys that have no effect: unknown ones, and those whose value the sampler cannot use. */
  readonly ignoredKeys: readonly string[];
}

/** Reads the sampling that a file recommends. */
export function readRecommendedSampling(metadata: GgufMetadata): RecommendedSampling {
  const options: Partial<Record<NumericSamplerOption, number>> = {};
  const ignoredKeys: string[] = [];
  for (const { key, type, value } of metadata.entries()) {
    if (!key.startsWith(SAMPLING_PREFIX)) continue;
    const name = key.slice(SAMPLING_PREFIX.length);
    const option = Object.hasOwn(OPTION_OF_KEY, name) ? OPTION_OF_KEY[name as keyof typeof OPTION_OF_KEY] : undefined;
    // Other programs write -1 for "off".
    const meant = option === "topK" && typeof value === "number" ? Math.max(0, value) : value;
    const read = typeof meant === "number" && type === "float32" ? shortestDecimal(meant) : meant;
    if (option === undefined || typeof read !== "number" || !isSamplerNumber(option, read)) ignoredKeys.push(key);
    else options[option] = read;
  }
  return { options: options as Partial<SamplerOptions>, ignoredKeys };
}

/** A caller's options over the recommended ones; an option that is undefined counts as absent. */
export function withRecommended(
  recommended: Partial<SamplerOptions>,
  given: Partial<SamplerOptions>,
): Partial<SamplerOptions> {
  // What is no object is left to the sampler's own check.
  if (typeof given !== "object" || given === null) return given;
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...recommended, ...Object.fromEntries(set) };
}

/** The number that was meant: 0.95, where the 32-bit float is 0.949999988079071. */
function shortestDecimal(value: number): number {
  for (let digits = 1; digits < FLOAT32_DIGITS; digits++) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === value) return rounded;
  }
  return value;
}
