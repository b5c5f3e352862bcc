// Schemas of the fields that several endpoints share, and their conversion to sampler options. Invariant: values are
// kept unchanged (see request-schema.ts).

import { z } from "zod";
import { isPlainObject } from "../../plain-object.js";
import { SAMPLER_RANGES, type SamplerOptions } from "../../sampler/options.js";
import type { ServerLimits } from "../http/limits.js";
import { listOf } from "./list-schema.js";

const MAX_NAME_CHARACTERS = 256;
/** Limits of OpenAI's API. */
const MAX_TEMPERATURE = 100;
const MAX_PENALTY = 2;
const MAX_BIAS = 100;
const LARGEST_SEED = 2 ** 63;
/** Bits of a seed that the sampler uses. */
const SEED_BITS = 53;

/** Accepted by every endpoint without effect: they are about accounts, billing, storage and caches. */
export const FIELDS_WITHOUT_EFFECT = [
  "user",
  "metadata",
  "store",
  "service_tier",
  "cache_control",
  "prediction",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
] as const;

/** The field that names the model. */
export const modelField = z
  .string()
  .min(1)
  .max(MAX_NAME_CHARACTERS)
  .describe("The model's name; may be omitted if only one is served");
/** A name or id of limited length. */
export const name = z.string().min(1).max(MAX_NAME_CHARACTERS);
/** Objects that are passed on unchanged: JSON schemas, template variables. */
export const anyObject = z.custom<Record<string, unknown>>(isPlainObject, "expected an object");
/** A known field without effect. */
export const ignored = z.unknown().optional();

/** Sampling options under the names of OpenAI and the servers of open models. */
export function samplingFields(limits: ServerLimits) {
  return {
    temperature: z.number().min(0).max(MAX_TEMPERATURE).optional(),
    top_p: z.number().min(0).max(1).optional(),
    top_k: z.int().min(-1).max(SAMPLER_RANGES.topK.to).optional().describe("0 and -1 are off"),
    min_p: z.number().min(0).max(1).optional(),
    typical_p: z.number().min(0).max(1).optional(),
    repetition_penalty: z
      .number()
      .min(SAMPLER_RANGES.repeatPenalty.from)
      .max(SAMPLER_RANGES.repeatPenalty.to)
      .optional(),
    presence_penalty: z.number().min(-MAX_PENALTY).max(MAX_PENALTY).optional(),
    frequency_penalty: z.number().min(-MAX_PENALTY).max(MAX_PENALTY).optional(),
    logit_bias: logitBias(limits.logitBiasEntries).optional(),
    seed: seedField.optional(),
  };
}

/** OpenAI's seeds are signed 64-bit integers, as far as a JSON number can represent them. */
const seedField = z
  .number()
  .min(-LARGEST_SEED)
  .max(LARGEST_SEED)
  .refine(Number.isInteger, "expected a whole number")
  .meta({ type: "integer" });

function logitBias(most: number) {
  return z
    .custom<Record<string, number>>(isPlainObject, "expected an object")
    .refine((bias) => Object.keys(bias).length <= most, `expected at most ${most} entries, found more`)
    .refine(
      (bias) => Object.entries(bias).every(isBias),
      `expected token ids with biases from -${MAX_BIAS} to ${MAX_BIAS}`,
    )
    .meta({ type: "object", additionalProperties: { type: "number", minimum: -MAX_BIAS, maximum: MAX_BIAS } });
}

function isBias([id, bias]: readonly [string, unknown]): boolean {
  return /^\d{1,10}$/.test(id) && typeof bias === "number" && Math.abs(bias) <= MAX_BIAS;
}

/** The stop strings of a request. */
export function stopField(limits: ServerLimits) {
  const text = z.string().min(1).max(limits.stopCharacters);
  return z.union([text, listOf(text, limits.stopStrings)], {
    error: "expected a string, or a list of non-empty strings",
  });
}

/** OpenAI's field that limits a reply to one call. */
export const parallelCalls = z.boolean().nullish().describe("Whether a reply may have several tool calls");

/** OpenAI's options of a stream. */
export const streamOptions = z.object({ include_usage: z.boolean().nullish(), include_obfuscation: ignored });

interface SamplingFields {
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly top_k?: number | undefined;
  readonly min_p?: number | undefined;
  readonly typical_p?: number | undefined;
  readonly repetition_penalty?: number | undefined;
  readonly presence_penalty?: number | undefined;
  readonly frequency_penalty?: number | undefined;
  readonly logit_bias?: Readonly<Record<string, number>> | undefined;
  readonly seed?: number | undefined;
}

/** OpenAI's penalties apply to the whole text. */
const PENALTY_WINDOW: Partial<SamplerOptions> = Object.freeze({ penaltyTokens: -1 });
const PENALTIES = ["repeatPenalty", "presencePenalty", "frequencyPenalty"] as const;

/**
 * The sampler options of a request, with the server's defaults. What neither sets is left to the model's file and the
 * sampler. The model's unmodified distribution is available with temperature 1, top_p 1, top_k 0, min_p 0.
 */
export function samplingOf(fields: SamplingFields, defaults: Partial<SamplerOptions>): Partial<SamplerOptions> {
  const asked: Partial<SamplerOptions> = {
    ...(fields.temperature === undefined ? {} : { temperature: fields.temperature }),
    ...(fields.top_p === undefined ? {} : { topP: fields.top_p }),
    ...(fields.top_k === undefined ? {} : { topK: Math.max(0, fields.top_k) }),
    ...(fields.min_p === undefined ? {} : { minP: fields.min_p }),
    ...(fields.typical_p === undefined ? {} : { typicalP: fields.typical_p }),
    ...(fields.repetition_penalty === undefined ? {} : { repeatPenalty: fields.repetition_penalty }),
    ...(fields.presence_penalty === undefined ? {} : { presencePenalty: fields.presence_penalty }),
    ...(fields.frequency_penalty === undefined ? {} : { frequencyPenalty: fields.frequency_penalty }),
    ...(fields.logit_bias === undefined ? {} : { logitBias: biasOf(fields.logit_bias) }),
    ...(fields.seed === undefined ? {} : { seed: Number(BigInt.asUintN(SEED_BITS, BigInt(fields.seed))) }),
  };
  const sampling = { ...defaults, ...asked };
  return PENALTIES.some((penalty) => sampling[penalty] !== undefined) ? { ...PENALTY_WINDOW, ...sampling } : sampling;
}

function biasOf(entries: Readonly<Record<string, number>>): ReadonlyMap<number, number> {
  return new Map(Object.entries(entries).map(([id, bias]) => [Number(id), bias]));
}

/** The stop strings as a list. */
export function stopsOf(stop: string | readonly string[] | undefined): readonly string[] {
  if (stop === undefined) return [];
  return typeof stop === "string" ? [stop] : stop;
}

/** "No limit" in the APIs of llama.cpp and LM Studio. */
const NO_LIMIT = -1;

/** The maximum number of tokens to generate. */
export const tokenLimit = z
  .int()
  .min(NO_LIMIT)
  .refine((value) => value !== 0, "expected 1 or more, or -1 for no limit, found 0")
  .describe("-1 means no limit except the context length");

/** The first limit that is given, of several fields for the same limit; undefined means no limit. */
export function maxTokensOf(...given: readonly (number | undefined)[]): number | undefined {
  const limit = given.find((value) => value !== undefined);
  return limit === NO_LIMIT ? undefined : limit;
}
