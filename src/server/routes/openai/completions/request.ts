// The fields of /v1/completions, and what they ask for.

import { z } from "zod";
import { MAX_TOP_LOGPROBS } from "../../../../engine/completion-request.js";
import type { SamplerOptions } from "../../../../sampler/options.js";
import type { CompletionSettings } from "../../../../completion/completion-run.js";
import {
  FIELDS_WITHOUT_EFFECT,
  maxTokensOf,
  modelField,
  samplingFields,
  samplingOf,
  stopField,
  stopsOf,
  streamOptions,
  tokenLimit,
} from "../../../schema/fields.js";
import type { ServerLimits } from "../../../http/limits.js";
import { promptField } from "../../../completion/prompt-field.js";
import { refuseField, RequestError } from "../../../http/request-error.js";
import type { RequestSchema } from "../../../schema/request-schema.js";
import { grammarFields, REFUSED_FORMATS } from "../../../schema/response-format.js";

/** OpenAI's default. */
const DEFAULT_MAX_TOKENS = 16;

function bodySchema(limits: ServerLimits) {
  return z.object({
    model: modelField.optional(),
    prompt: promptField(limits.prompts),
    ...samplingFields(limits),
    ...grammarFields(limits),
    stop: stopField(limits).optional(),
    n: z.int().min(1).max(limits.choices).optional(),
    best_of: z.int().min(1).optional().describe("Must equal n"),
    max_tokens: tokenLimit.optional(),
    logprobs: z.int().min(0).max(MAX_TOP_LOGPROBS).optional(),
    echo: z.boolean().optional(),
    parse_special: z
      .boolean()
      .optional()
      .describe("Parses the text of special tokens in the prompt as these tokens; true by default"),
    ignore_eos: z.boolean().optional().describe("Continues past end-of-sequence tokens, up to max_tokens"),
    stream: z.boolean().optional(),
    stream_options: streamOptions.optional(),
  });
}

/** The body of a request to /v1/completions. */
export type CompletionBody = z.infer<ReturnType<typeof bodySchema>>;

/** The schema of a request to /v1/completions. */
export function completionRequestSchema(limits: ServerLimits): RequestSchema<CompletionBody> {
  return {
    fields: bodySchema(limits),
    withoutEffect: FIELDS_WITHOUT_EFFECT,
    refused: {
      suffix: { instead: "text is generated after a prompt only, not before a suffix", unless: [""] },
      min_tokens: { instead: "use ignore_eos with max_tokens" },
      stop_token_ids: { instead: "use stop" },
      ...REFUSED_FORMATS,
    },
  };
}

/** How a request's prompts are completed. */
export function completionSettings(
  body: CompletionBody,
  defaults: Partial<SamplerOptions>,
): CompletionSettings & { readonly choices: number } {
  const choices = body.n ?? 1;
  if (body.best_of !== undefined && body.best_of !== choices)
    refuseField("best_of", `the value of n, ${choices}`, String(body.best_of));
  if (body.echo === true && body.logprobs !== undefined) {
    throw new RequestError("[echo] is not supported together with logprobs: the prompt's own are not computed", {
      status: 400,
      code: "unsupported_parameter",
      param: "echo",
    });
  }
  return {
    sampling: samplingOf(body, defaults),
    stop: stopsOf(body.stop),
    choices,
    maxTokens: maxTokensOf(body.max_tokens, DEFAULT_MAX_TOKENS),
    topLogprobs: body.logprobs,
    ignoreEndOfGeneration: body.ignore_eos ?? false,
  };
}
