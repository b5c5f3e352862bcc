// Fields that several endpoints of Ollama's API share: options, format, think, keep_alive, and what they ask for.

import { z } from "zod";
import { MAX_TOP_LOGPROBS } from "../../../engine/completion-request.js";
import type { ChatPrompt } from "../../../completion/chat-request.js";
import type { CompletionSettings } from "../../../completion/completion-run.js";
import type { GrammarSpec } from "../../../grammar/grammar-spec.js";
import { SAMPLER_DEFAULTS, SAMPLER_RANGES, type SamplerOptions } from "../../../sampler/options.js";
import type { ServerLimits } from "../../http/limits.js";
import { refuseField } from "../../http/request-error.js";
import { anyObject, ignored, modelField, samplingFields, samplingOf, stopField, stopsOf } from "../../schema/fields.js";
import { formatOf } from "../../schema/response-format.js";

/** Options about how Ollama loads a model: here `rocmforge serve` decides that when it starts. */
const LOADING_OPTIONS = {
  num_ctx: ignored.describe("Without effect: the context length is the server's"),
  num_keep: ignored,
  num_batch: ignored,
  num_gpu: ignored,
  main_gpu: ignored,
  num_thread: ignored,
  numa: ignored,
  use_mmap: ignored,
  use_mlock: ignored,
  low_vram: ignored,
  f16_kv: ignored,
  vocab_only: ignored,
  logits_all: ignored,
} as const;

/** Ollama's mark for no limit, and for as many tokens as the context holds, which is the same here. */
const FILL_CONTEXT = -2;

function optionsField(limits: ServerLimits) {
  const { temperature, top_k, top_p, min_p, typical_p, presence_penalty, frequency_penalty, seed } =
    samplingFields(limits);
  const { repeatPenalty, mirostatTau, mirostatEta } = SAMPLER_RANGES;
  return z.object({
    temperature: temperature.nullish(),
    top_k: top_k.nullish(),
    top_p: top_p.nullish(),
    min_p: min_p.nullish(),
    typical_p: typical_p.nullish(),
    presence_penalty: presence_penalty.nullish(),
    frequency_penalty: frequency_penalty.nullish(),
    seed: seed.nullish(),
    repeat_penalty: z.number().min(repeatPenalty.from).max(repeatPenalty.to).nullish(),
    repeat_last_n: z.int().min(-1).nullish().describe("How many tokens penalties consider; -1 is all, 0 is off"),
    mirostat: z.literal([0, 2]).nullish(),
    mirostat_tau: z.number().gt(mirostatTau.from).max(mirostatTau.to).nullish(),
    mirostat_eta: z.number().gt(mirostatEta.from).max(mirostatEta.to).nullish(),
    stop: stopField(limits).nullish(),
    num_predict: z.int().min(FILL_CONTEXT).nullish().describe("Tokens to generate; 0 and less are no limit"),
    tfs_z: ignored,
    penalize_newline: ignored,
    ...LOADING_OPTIONS,
  });
}

/** Images of a request, of which there may be none. */
export const noImages = z
  .custom<unknown>((value) => Array.isArray(value) && value.length === 0, "images are not supported: expected none")
  .nullish();

/** The fields that chats and generations have in common. */
export function generationFields(limits: ServerLimits) {
  return {
    model: modelField,
    options: optionsField(limits).optional(),
    format: z
      .union([anyObject, z.string().max(limits.grammarCharacters)], { error: `expected "json", or a JSON schema` })
      .optional()
      .describe(`"json", or a JSON schema`),
    think: z
      .union([z.boolean(), z.enum(["low", "medium", "high", "max"])], {
        error: `expected true, false, "low", "medium", "high" or "max"`,
      })
      .optional()
      .describe("Whether the model reasons before it replies, or how much"),
    logprobs: z.boolean().optional(),
    top_logprobs: z.int().min(0).max(MAX_TOP_LOGPROBS).optional(),
    keep_alive: keepAlive.optional(),
    stream: z.boolean().optional().describe("True by default"),
  };
}

/** How long a model stays loaded, which this server decides itself. */
export const keepAlive = z
  .union([z.number(), z.string().max(64)], { error: `expected seconds, or a duration such as "5m"` })
  .describe("Without effect: the server decides how long a model stays loaded");

/** The body of a request that generates text, as far as its endpoints agree. */
export type GenerationBody = z.infer<z.ZodObject<ReturnType<typeof generationFields>>>;

/** How a request's text is generated. */
export function generationSettings(
  { options, logprobs, top_logprobs: topLogprobs }: GenerationBody,
  defaults: Partial<SamplerOptions>,
): CompletionSettings & { readonly choices: number } {
  if (topLogprobs !== undefined && topLogprobs > 0 && logprobs !== true)
    refuseField("top_logprobs", "logprobs to be true", String(logprobs ?? "nothing"));
  const { num_predict: most } = options ?? {};
  return {
    sampling: optionSampling(options ?? {}, defaults),
    stop: stopsOf(options?.stop ?? undefined),
    choices: 1,
    maxTokens: typeof most === "number" && most > 0 ? most : undefined,
    topLogprobs: logprobs === true ? (topLogprobs ?? 0) : undefined,
  };
}

type Options = NonNullable<GenerationBody["options"]>;

function optionSampling(options: Options, defaults: Partial<SamplerOptions>): Partial<SamplerOptions> {
  const given = withoutNulls(options);
  const { repeat_penalty, repeat_last_n, mirostat, mirostat_tau, mirostat_eta } = given;
  const sampling = samplingOf({ ...given, repetition_penalty: repeat_penalty }, defaults);
  return {
    ...sampling,
    // Unlike OpenAI's penalties, Ollama's apply to the last tokens only.
    penaltyTokens: repeat_last_n ?? defaults.penaltyTokens ?? SAMPLER_DEFAULTS.penaltyTokens,
    ...(mirostat === undefined ? {} : { mirostat }),
    ...(mirostat_tau === undefined ? {} : { mirostatTau: mirostat_tau }),
    ...(mirostat_eta === undefined ? {} : { mirostatEta: mirostat_eta }),
  };
}

type WithoutNulls<Fields> = { readonly [Name in keyof Fields]: Exclude<Fields[Name], null> };

/** Null means absent. */
function withoutNulls<Fields extends object>(fields: Fields): WithoutNulls<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as WithoutNulls<Fields>;
}

/** The response format of a request; empty text asks for none. */
export function responseFormatOf({ format }: Pick<GenerationBody, "format">): GrammarSpec | undefined {
  return format === undefined || format === "" ? undefined : formatOf({ format });
}

/** What `think` asks of the template; without it, the template decides. */
export function reasoningOf({
  think,
}: Pick<GenerationBody, "think">): Pick<ChatPrompt, "reasoning" | "templateOptions"> {
  return {
    reasoning: think === undefined ? undefined : think !== false,
    templateOptions: typeof think === "string" ? { reasoning_effort: think } : {},
  };
}
