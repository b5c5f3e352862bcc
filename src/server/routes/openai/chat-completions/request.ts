// The fields of /v1/chat/completions, and the chat that they ask for.

import { z } from "zod";
import { MAX_TOP_LOGPROBS } from "../../../../engine/completion-request.js";
import type { ChatMessage } from "../../../../chat/message.js";
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
  stopField,
  stopsOf,
  streamOptions,
  tokenLimit,
  parallelCalls,
} from "../../../schema/fields.js";
import type { ServerLimits } from "../../../http/limits.js";
import { listOf } from "../../../schema/list-schema.js";
import { refuseField } from "../../../http/request-error.js";
import type { RequestSchema } from "../../../schema/request-schema.js";
import { formatOf, grammarFields, REFUSED_FORMATS } from "../../../schema/response-format.js";
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

function messageSchema(limits: ServerLimits) {
  const textPart = z.object({ type: z.literal("text"), text: z.string(), cache_control: ignored });
  const refusalPart = z.object({ type: z.literal("refusal"), refusal: z.string() });
  const error = "expected text, or a list of parts of type text";
  const content = z.union([z.string(), listOf(z.discriminatedUnion("type", [textPart]), limits.contentParts)], {
    error,
  });
  const answer = z.union(
    [z.string(), listOf(z.discriminatedUnion("type", [textPart, refusalPart]), limits.contentParts)],
    { error },
  );
  const toolCall = z.object({
    id: name,
    type: z.literal("function").nullish(),
    function: z.object({ name: toolName, arguments: z.string() }),
  });
  return z.discriminatedUnion("role", [
    z.object({ role: z.literal("system"), content, name: name.nullish() }),
    z.object({ role: z.literal("developer"), content, name: name.nullish() }),
    z.object({ role: z.literal("user"), content, name: name.nullish() }),
    z.object({
      role: z.literal("assistant"),
      content: answer.nullish(),
      name: name.nullish(),
      refusal: z.string().nullish(),
      reasoning_content: z.string().nullish(),
      reasoning: z.string().nullish(),
      tool_calls: listOf(toolCall, limits.tools).nullish(),
      annotations: ignored,
      audio: z.null().optional(),
      function_call: z.null().optional(),
    }),
    z.object({ role: z.literal("tool"), content, tool_call_id: name, name: name.nullish() }),
  ]);
}

const namedTool = z.object({ type: z.literal("function"), function: z.object({ name: toolName }) });

function toolChoiceSchema(limits: ServerLimits) {
  const tools = listOf(z.union([namedTool, skippedTool("function")]), limits.tools);
  const allowed = z.object({
    type: z.literal("allowed_tools"),
    allowed_tools: z.object({ mode: z.enum(["auto", "required"]), tools }),
  });
  return z.union([z.enum(["none", "auto", "required"]), namedTool, allowed], {
    error: `expected "none", "auto", "required", { "type": "function", "function": { "name": … } } or { "type": "allowed_tools", … }`,
  });
}

function bodySchema(limits: ServerLimits) {
  const tool = z.object({
    type: z.literal("function"),
    function: z.object({
      name: toolName,
      description: z.string().nullish(),
      parameters: anyObject.nullish(),
      strict: z.boolean().nullish(),
    }),
    cache_control: ignored,
  });
  return z.object({
    model: modelField.optional(),
    messages: listOf(messageSchema(limits), limits.messages, 1),
    ...samplingFields(limits),
    ...grammarFields(limits),
    stop: stopField(limits).optional(),
    n: z.int().min(1).max(limits.choices).optional(),
    max_tokens: tokenLimit.optional(),
    max_completion_tokens: tokenLimit.optional(),
    logprobs: z.boolean().optional(),
    top_logprobs: z.int().min(0).max(MAX_TOP_LOGPROBS).optional(),
    tools: listOf(z.union([tool, skippedTool("function")]), limits.tools).optional(),
    tool_choice: toolChoiceSchema(limits).optional(),
    parallel_tool_calls: parallelCalls.optional(),
    reasoning_effort: reasoningEffort.optional(),
    enable_thinking: z.boolean().nullish().describe("Whether the model reasons before it replies"),
    chat_template_kwargs: anyObject.optional().describe("Variables for the model's chat template"),
    ignore_eos: z.boolean().optional().describe("Continues past end-of-sequence tokens, up to max_tokens"),
    stream: z.boolean().optional(),
    stream_options: streamOptions.optional(),
  });
}

/** The body of a request to /v1/chat/completions. */
export type ChatCompletionBody = z.infer<ReturnType<typeof bodySchema>>;

/** The schema of a request to /v1/chat/completions. */
export function chatCompletionRequestSchema(limits: ServerLimits): RequestSchema<ChatCompletionBody> {
  const useTools = { instead: "use tools and tool_choice" };
  const textOnly = { instead: "only text output is supported" };
  return {
    fields: bodySchema(limits),
    withoutEffect: [...FIELDS_WITHOUT_EFFECT, "verbosity"],
    refused: {
      functions: useTools,
      function_call: useTools,
      audio: textOnly,
      modalities: { ...textOnly, unless: [["text"]] },
      web_search_options: { instead: "web search is not supported" },
      moderation: { instead: "moderation is not supported" },
      min_tokens: { instead: "use ignore_eos with max_tokens" },
      stop_token_ids: { instead: "use stop" },
      best_of: { instead: "use n", unless: [1] },
      ...REFUSED_FORMATS,
    },
    skipped: ({ tools = [] }) => describeSkipped(tools.filter((tool) => !isFunction(tool))),
  };
}

/** The chat that a request asks for. */
export function chatCompletionRequest(body: ChatCompletionBody, defaults: Partial<SamplerOptions>): ChatRequest {
  if (body.top_logprobs !== undefined && body.logprobs !== true)
    refuseField("top_logprobs", "logprobs to be true", String(body.logprobs ?? "nothing"));
  const effort = body.reasoning_effort;
  return {
    messages: body.messages.map(messageOf),
    ...toolsOf(body),
    parallelToolCalls: body.parallel_tool_calls ?? true,
    reasoning: reasoningOf(body),
    templateOptions: { ...(effort === undefined ? {} : { reasoning_effort: effort }), ...body.chat_template_kwargs },
    responseFormat: formatOf(body),
    sampling: samplingOf(body, defaults),
    stop: stopsOf(body.stop),
    choices: body.n ?? 1,
    maxTokens: maxTokensOf(body.max_completion_tokens, body.max_tokens),
    topLogprobs: body.logprobs === true ? (body.top_logprobs ?? 0) : undefined,
    ignoreEndOfGeneration: body.ignore_eos ?? false,
  };
}

/** Whether the model reasons, as the field says, the template's own variable, or the effort; undefined if none does. */
function reasoningOf(body: ChatCompletionBody): boolean | undefined {
  const { enable_thinking: field, chat_template_kwargs: variables = {}, reasoning_effort: effort } = body;
  if (typeof field === "boolean") return field;
  const variable = variables["enable_thinking"];
  if (typeof variable === "boolean") return variable;
  return effort === undefined ? undefined : effort !== "none";
}

function isFunction<Tool extends { readonly type: string }>(
  tool: Tool,
): tool is Extract<Tool, { readonly type: "function" }> {
  return tool.type === "function";
}

function toolsOf({ tools: given = [], tool_choice: choice }: ChatCompletionBody): ChosenTools {
  const tools = given.filter(isFunction).map((tool) => toolOf(tool.function));
  if (choice === undefined) return { tools, toolChoice: defaultToolChoice(tools) };
  if (typeof choice === "string") return { tools, toolChoice: { kind: choice } };
  if (choice.type === "function") return { tools, toolChoice: { kind: "named", name: choice.function.name } };
  const { mode, tools: named } = choice.allowed_tools;
  return allowedTools(tools, { mode, names: named.filter(isFunction).map((tool) => tool.function.name) });
}

type Part = { readonly type: "text"; readonly text: string } | { readonly type: "refusal"; readonly refusal: string };

function textOf(content: string | readonly Part[] | null | undefined): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => (part.type === "text" ? part.text : part.refusal)).join("");
}

function messageOf(message: ChatCompletionBody["messages"][number]): ChatMessage {
  const { role } = message;
  const named = typeof message.name === "string" ? { name: message.name } : {};
  switch (role) {
    case "assistant": {
      const { tool_calls: calls, refusal } = message;
      const reasoning = message.reasoning_content ?? message.reasoning;
      return {
        role,
        content: textOf(message.content) || (refusal ?? ""),
        ...named,
        ...(typeof reasoning === "string" ? { reasoning } : {}),
        ...(calls === undefined || calls === null
          ? {}
          : { toolCalls: calls.map((call) => ({ id: call.id, ...call.function })) }),
      };
    }
    case "tool":
      return { role, content: textOf(message.content), ...named, toolCallId: message.tool_call_id };
    default:
      return { role, content: textOf(message.content), ...named };
  }
}
