// The fields of /v1/responses, and the chat that they ask for.

import { z } from "zod";
import { MAX_TOP_LOGPROBS } from "../../../../engine/completion-request.js";
import type { GrammarSpec } from "../../../../grammar/grammar-spec.js";
import type { SamplerOptions } from "../../../../sampler/options.js";
import type { ChatRequest } from "../../../../completion/chat-request.js";
import {
  anyObject,
  FIELDS_WITHOUT_EFFECT,
  ignored,
  maxTokensOf,
  modelField,
  name,
  samplingFields,
  samplingOf,
  tokenLimit,
  parallelCalls,
} from "../../../schema/fields.js";
import type { ServerLimits } from "../../../http/limits.js";
import { listOf } from "../../../schema/list-schema.js";
import type { RequestSchema } from "../../../schema/request-schema.js";
import { refusedFormats } from "../../../schema/response-format.js";
import {
  allowedTools,
  type ChosenTools,
  defaultToolChoice,
  describeSkipped,
  reasoningEffort,
  skippedTool,
  toolName,
  toolOf,
} from "../../../schema/tool-fields.js";
import { inputItem, type Item, messagesOf } from "./items.js";

/** The value of `include` that asks for log-probabilities. */
const INCLUDE_LOGPROBS = "message.output_text.logprobs";
/** The value of `include` that asks for reasoning that the client can send back. */
export const INCLUDE_REASONING = "reasoning.encrypted_content";
/** Limits of OpenAI's API. */
const MAX_METADATA_ENTRIES = 16;
const MAX_METADATA_CHARACTERS = 512;

const textFormat = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text") }),
  z.object({ type: z.literal("json_object") }),
  z.object({
    type: z.literal("json_schema"),
    name: z.string().max(256).nullish(),
    description: z.string().nullish(),
    schema: anyObject,
    strict: z.boolean().nullish(),
  }),
]);

const functionTool = z.object({
  type: z.literal("function"),
  name: toolName,
  description: z.string().nullish(),
  parameters: anyObject.nullish(),
  strict: z.boolean().nullish(),
  defer_loading: ignored,
});
const namedTool = z.object({ type: z.literal("function"), name: toolName });

const metadata = anyObject.refine(
  (entries) =>
    Object.keys(entries).length <= MAX_METADATA_ENTRIES &&
    Object.entries(entries).every(
      ([key, value]) =>
        key.length <= MAX_METADATA_CHARACTERS && typeof value === "string" && value.length <= MAX_METADATA_CHARACTERS,
    ),
  `expected at most ${MAX_METADATA_ENTRIES} texts of at most ${MAX_METADATA_CHARACTERS} characters`,
);

function toolChoice(limits: ServerLimits) {
  const tools = listOf(z.union([namedTool, skippedTool("function")]), limits.tools);
  const allowed = z.object({ type: z.literal("allowed_tools"), mode: z.enum(["auto", "required"]), tools });
  return z.union([z.enum(["none", "auto", "required"]), namedTool, allowed], {
    error: `expected "none", "auto", "required", { "type": "function", "name": … } or { "type": "allowed_tools", … }`,
  });
}

function bodySchema(limits: ServerLimits) {
  return z.object({
    model: modelField.optional(),
    input: z.union([z.string(), listOf(inputItem(limits), limits.messages)], {
      error: "expected text, or a list of items",
    }),
    instructions: z.string().optional(),
    previous_response_id: name.optional().describe("Id of a stored response whose input and output precede this input"),
    store: z
      .boolean()
      .optional()
      .describe("Stores the response for previous_response_id, item_reference and GET; true by default"),
    metadata: metadata.optional(),
    ...samplingFields(limits),
    max_output_tokens: tokenLimit.optional(),
    text: z.object({ format: textFormat.nullish(), verbosity: ignored }).optional(),
    tools: listOf(z.union([functionTool, skippedTool("function")]), limits.tools).optional(),
    tool_choice: toolChoice(limits).optional(),
    parallel_tool_calls: parallelCalls.optional(),
    reasoning: z
      .object({ effort: reasoningEffort.nullish(), summary: ignored, generate_summary: ignored, context: ignored })
      .optional(),
    include: listOf(z.string(), limits.contentParts)
      .optional()
      .describe(`Only ${INCLUDE_LOGPROBS} and ${INCLUDE_REASONING} add something`),
    top_logprobs: z.int().min(0).max(MAX_TOP_LOGPROBS).optional(),
    truncation: z
      .enum(["auto", "disabled"])
      .optional()
      .describe("Accepted; input that exceeds the context length is refused, not truncated"),
    stream: z.boolean().optional(),
  });
}

/** The body of a request to /v1/responses. */
export type ResponseBody = z.infer<ReturnType<typeof bodySchema>>;

/** The schema of a request to /v1/responses. */
export function responseRequestSchema(limits: ServerLimits): RequestSchema<ResponseBody> {
  return {
    fields: bodySchema(limits),
    withoutEffect: [
      ...FIELDS_WITHOUT_EFFECT.filter((field) => field !== "store" && field !== "metadata"),
      "stream_options",
      "max_tool_calls",
      "client_metadata",
    ],
    refused: {
      conversation: { instead: "use previous_response_id, or send the whole conversation as input" },
      prompt: { instead: "send the prompt itself as instructions and input" },
      background: { instead: "wait for the response, or stream it", unless: [false] },
      context_management: { instead: "shorten the input" },
      moderation: { instead: "moderation is not supported" },
      ...refusedFormats("use text.format"),
    },
    skipped: ({ tools = [] }) => describeSkipped(tools.filter((tool) => !isFunction(tool))),
  };
}

/** The chat that a request asks for; `items` is the whole conversation, stored items included. */
export function responseRequest(
  body: ResponseBody,
  items: readonly Item[],
  defaults: Partial<SamplerOptions>,
): ChatRequest {
  const effort = body.reasoning?.effort ?? undefined;
  const wantsLogprobs = body.top_logprobs !== undefined || body.include?.includes(INCLUDE_LOGPROBS) === true;
  return {
    messages: messagesOf(items, body.instructions),
    ...toolsOf(body),
    parallelToolCalls: body.parallel_tool_calls ?? true,
    reasoning: effort === undefined ? undefined : effort !== "none",
    templateOptions: effort === undefined ? {} : { reasoning_effort: effort },
    responseFormat: formatOf(body),
    sampling: samplingOf(body, defaults),
    maxTokens: maxTokensOf(body.max_output_tokens),
    topLogprobs: wantsLogprobs ? (body.top_logprobs ?? 0) : undefined,
  };
}

function formatOf({ text }: ResponseBody): GrammarSpec | undefined {
  const format = text?.format;
  if (format === undefined || format === null || format.type === "text") return undefined;
  return format.type === "json_object" ? { kind: "json" } : { kind: "schema", schema: format.schema };
}

/** Whether a tool is a function, the only supported type. */
export function isFunction<Tool extends { readonly type: string }>(
  tool: Tool,
): tool is Extract<Tool, { readonly type: "function" }> {
  return tool.type === "function";
}

function toolsOf({ tools: given = [], tool_choice: choice }: ResponseBody): ChosenTools {
  const tools = given.filter(isFunction).map(toolOf);
  if (choice === undefined) return { tools, toolChoice: defaultToolChoice(tools) };
  if (typeof choice === "string") return { tools, toolChoice: { kind: choice } };
  if (choice.type === "function") return { tools, toolChoice: { kind: "named", name: choice.name } };
  return allowedTools(tools, { mode: choice.mode, names: choice.tools.filter(isFunction).map((tool) => tool.name) });
}
