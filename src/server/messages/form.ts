// The fields of /v1/messages and /v1/messages/count_tokens, and the chat that they ask for.

import { z } from "zod";
import type { ChatMessage, ChatTool, ChatToolCall, ToolChoice } from "../../chat/message.js";
import type { SamplerOptions } from "../../sampler/options.js";
import type { ChatJob, ChatPrompt } from "../chat-run.js";
import { anyObject, FIELDS_WITHOUT_EFFECT, ignored, modelName, name, samplingFields, samplingOf } from "../fields.js";
import type { ServerLimits } from "../limits.js";
import { listOf } from "../list-schema.js";
import { RequestError } from "../request-error.js";
import type { RequestForm } from "../request-form.js";
import { defaultToolChoice, toolName, toolOf } from "../tool-fields.js";

const textBlock = z.object({ type: z.literal("text"), text: z.string(), cache_control: ignored, citations: ignored });

function textOrBlocks(limits: ServerLimits) {
  return z.union([z.string(), listOf(z.discriminatedUnion("type", [textBlock]), limits.contentParts)], {
    error: "expected text, or a list of blocks of type text",
  });
}

function messageSchema(limits: ServerLimits) {
  const block = z.discriminatedUnion("type", [
    textBlock,
    z.object({ type: z.literal("thinking"), thinking: z.string(), signature: ignored }),
    z.object({ type: z.literal("redacted_thinking"), data: ignored }),
    z.object({ type: z.literal("tool_use"), id: name, name: toolName, input: anyObject, cache_control: ignored, caller: ignored }),
    z.object({
      type: z.literal("tool_result"),
      tool_use_id: name,
      content: textOrBlocks(limits).nullish(),
      is_error: ignored,
      cache_control: ignored,
    }),
  ]);
  return z.object({
    role: z.enum(["user", "assistant", "system"]),
    content: z.union([z.string(), listOf(block, limits.contentParts)], { error: "expected text, or a list of blocks" }),
  });
}

const toolChoice = z.discriminatedUnion("type", [
  z.object({ type: z.literal("auto"), disable_parallel_tool_use: ignored }),
  z.object({ type: z.literal("any"), disable_parallel_tool_use: ignored }),
  z.object({ type: z.literal("tool"), name: toolName, disable_parallel_tool_use: ignored }),
  z.object({ type: z.literal("none") }),
]);

const thinking = z.discriminatedUnion("type", [
  z.object({ type: z.literal("enabled"), budget_tokens: z.int().min(1).nullish(), display: ignored }),
  z.object({ type: z.literal("adaptive"), display: ignored }),
  z.object({ type: z.literal("disabled") }),
]);

function promptFields(limits: ServerLimits) {
  const tool = z.object({
    type: z.literal("custom").nullish(),
    name: toolName,
    description: z.string().nullish(),
    input_schema: anyObject,
    cache_control: ignored,
    strict: z.boolean().nullish(),
    input_examples: ignored,
    eager_input_streaming: ignored,
  });
  return {
    model: modelName.optional(),
    messages: listOf(messageSchema(limits), limits.messages, 1),
    system: textOrBlocks(limits).optional(),
    tools: listOf(tool, limits.tools).optional(),
    tool_choice: toolChoice.optional(),
    thinking: thinking.optional(),
    output_config: z
      .object({
        effort: z.enum(["low", "medium", "high", "xhigh", "max"]).nullish(),
        format: z.object({ type: z.literal("json_schema"), schema: anyObject }).nullish(),
      })
      .optional(),
  };
}

function countSchema(limits: ServerLimits) {
  return z.object(promptFields(limits));
}

function bodySchema(limits: ServerLimits) {
  const { temperature, top_k, top_p } = samplingFields(limits);
  return z.object({
    ...promptFields(limits),
    max_tokens: z.int().min(1),
    stop_sequences: listOf(z.string().min(1).max(limits.stopCharacters), limits.stopStrings).optional(),
    temperature,
    top_k,
    top_p,
    stream: z.boolean().optional(),
  });
}

export type CountBody = z.infer<ReturnType<typeof countSchema>>;
export type MessageBody = z.infer<ReturnType<typeof bodySchema>>;

const POLICY = {
  withoutEffect: [...FIELDS_WITHOUT_EFFECT, "diagnostics", "inference_geo", "speed", "user_profile_id", "workspace_id"],
  refused: {
    container: { instead: "this server has no containers" },
    context_management: { instead: "shorten the messages" },
    mcp_servers: { instead: "call them yourself, through tools" },
    output_format: { instead: "use output_config.format" },
  },
} as const satisfies Omit<RequestForm, "schema">;

export function messageForm(limits: ServerLimits): RequestForm<MessageBody> {
  return { schema: bodySchema(limits), ...POLICY };
}

export function countForm(limits: ServerLimits): RequestForm<CountBody> {
  return { schema: countSchema(limits), ...POLICY };
}

export function messagePrompt(body: CountBody): ChatPrompt {
  const tools = (body.tools ?? []).map(({ name: toolsName, description, input_schema: parameters }) => toolOf({ name: toolsName, description, parameters }));
  const { effort, format } = body.output_config ?? {};
  return {
    model: body.model,
    messages: messagesOf(body),
    tools,
    toolChoice: toolChoiceOf(body.tool_choice, tools),
    // The API's own default: a model thinks when it is asked to.
    thinking: body.thinking !== undefined && body.thinking.type !== "disabled",
    templateOptions: typeof effort === "string" ? { reasoning_effort: effort } : {},
    format: format === undefined || format === null ? undefined : { kind: "schema", schema: format.schema },
    fields: { messages: "messages", format: "output_config.format" },
  };
}

export function messageJob(body: MessageBody, defaults: Partial<SamplerOptions>): ChatJob {
  return {
    ...messagePrompt(body),
    sampling: samplingOf(body, defaults),
    stop: body.stop_sequences ?? [],
    choices: 1,
    maxTokens: body.max_tokens,
    topLogprobs: undefined,
    ignoreEndOfGeneration: false,
  };
}

function toolChoiceOf(choice: CountBody["tool_choice"], tools: readonly ChatTool[]): ToolChoice {
  if (choice === undefined) return defaultToolChoice(tools);
  switch (choice.type) {
    case "tool":
      return { kind: "named", name: choice.name };
    case "any":
      return { kind: "required" };
    default:
      return { kind: choice.type };
  }
}

type TextOrBlocks = string | readonly { readonly text: string }[];

function textOf(content: TextOrBlocks | null | undefined): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => text).join("");
}

function messagesOf({ system, messages }: CountBody): readonly ChatMessage[] {
  if (messages.at(-1)?.role === "assistant") {
    throw new RequestError("[messages] expected the last message to be the user's: an answer that is begun cannot be continued", {
      status: 400,
      code: "unsupported_parameter",
      param: "messages",
    });
  }
  const first: ChatMessage[] = system === undefined ? [] : [{ role: "system", content: textOf(system) }];
  return [...first, ...messages.flatMap(messageOf)];
}

/** Results of tools come in a user's message here, and are messages of their own there. */
function messageOf({ role, content }: CountBody["messages"][number]): readonly ChatMessage[] {
  if (typeof content === "string") return [{ role, content }];
  const results: ChatMessage[] = [];
  const calls: ChatToolCall[] = [];
  let text = "";
  let reasoning = "";
  for (const block of content) {
    switch (block.type) {
      case "text":
        text += block.text;
        break;
      case "thinking":
        reasoning += block.thinking;
        break;
      case "redacted_thinking":
        break;
      case "tool_use":
        calls.push({ id: block.id, name: block.name, arguments: JSON.stringify(block.input) });
        break;
      case "tool_result":
        results.push({ role: "tool", content: textOf(block.content), toolCallId: block.tool_use_id });
        break;
      default:
        block satisfies never;
    }
  }
  if (role !== "assistant") return text === "" && results.length > 0 ? results : [...results, { role, content: text }];
  return [{ role, content: text, ...(reasoning === "" ? {} : { reasoning }), ...(calls.length === 0 ? {} : { toolCalls: calls }) }];
}
