// The fields of /v1/messages and /v1/messages/count_tokens, and the chat that they ask for.

import { z } from "zod";
import type { ChatMessage, ChatTool, ChatToolCall, ToolChoice } from "../../../../chat/message.js";
import type { SamplerOptions } from "../../../../sampler/options.js";
import type { ChatPrompt, ChatRequest } from "../../../../completion/chat-request.js";
import {
  anyObject,
  FIELDS_WITHOUT_EFFECT,
  ignored,
  modelField,
  name,
  samplingFields,
  samplingOf,
} from "../../../schema/fields.js";
import type { ServerLimits } from "../../../http/limits.js";
import { listOf } from "../../../schema/list-schema.js";
import { RequestError } from "../../../http/request-error.js";
import type { RequestSchema } from "../../../schema/request-schema.js";
import { refusedFormats } from "../../../schema/response-format.js";
import { defaultToolChoice, describeSkipped, toolName } from "../../../schema/tool-fields.js";
import { isClientTool, messageTools, TOOL_CHANGES, toolList } from "./tools.js";

const textBlock = z.object({ type: z.literal("text"), text: z.string(), cache_control: ignored, citations: ignored });

function textOrBlocks(limits: ServerLimits) {
  return z.union([z.string(), listOf(z.discriminatedUnion("type", [textBlock]), limits.contentParts)], {
    error: "expected text, or a list of blocks of type text",
  });
}

/** The result of a client's tool: text, search results, or references to deferred tools that become callable. */
function toolResult(limits: ServerLimits) {
  const passage = z.object({
    type: z.literal("search_result"),
    source: z.string(),
    title: z.string(),
    content: listOf(textBlock, limits.contentParts),
    citations: ignored,
    cache_control: ignored,
  });
  const found = z.object({ type: z.literal("tool_reference"), tool_name: toolName, cache_control: ignored });
  return z.union([z.string(), listOf(z.discriminatedUnion("type", [textBlock, passage, found]), limits.contentParts)], {
    error: "expected text, or a list of blocks of type text, search_result or tool_reference",
  });
}

function messageSchema(limits: ServerLimits) {
  const block = z.discriminatedUnion("type", [
    textBlock,
    ...TOOL_CHANGES,
    z.object({ type: z.literal("thinking"), thinking: z.string(), signature: ignored }),
    z.object({ type: z.literal("redacted_thinking"), data: ignored }),
    z.object({
      type: z.literal("tool_use"),
      id: name,
      name: toolName,
      input: anyObject,
      cache_control: ignored,
      caller: ignored,
    }),
    z.object({
      type: z.literal("tool_result"),
      tool_use_id: name,
      content: toolResult(limits).nullish(),
      is_error: ignored,
      cache_control: ignored,
    }),
  ]);
  return z.object({
    role: z.enum(["user", "assistant", "system"]),
    content: z.union([z.string(), listOf(block, limits.contentParts)], { error: "expected text, or a list of blocks" }),
    output_config: ignored,
  });
}

const oneCall = z.boolean().nullish().describe("Whether a reply has one call at most");
const toolChoice = z.discriminatedUnion("type", [
  z.object({ type: z.literal("auto"), disable_parallel_tool_use: oneCall }),
  z.object({ type: z.literal("any"), disable_parallel_tool_use: oneCall }),
  z.object({ type: z.literal("tool"), name: toolName, disable_parallel_tool_use: oneCall }),
  z.object({ type: z.literal("none") }),
]);

const thinking = z.discriminatedUnion("type", [
  z.object({ type: z.literal("enabled"), budget_tokens: z.int().min(1).nullish(), display: ignored }),
  z.object({ type: z.literal("adaptive"), display: ignored }),
  z.object({ type: z.literal("disabled") }),
]);

const outputFormat = z.object({ type: z.literal("json_schema"), schema: anyObject, name: ignored });

/** Only the edit that keeps everything; other edits would change the prompt. */
const contextManagement = z.object({
  edits: z
    .array(z.object({ type: z.literal("clear_thinking_20251015"), keep: z.literal("all") }), {
      error: `expected only edits of type clear_thinking_20251015 with keep "all": this server does not edit conversations`,
    })
    .nullish(),
});

function promptFields(limits: ServerLimits) {
  return {
    model: modelField.optional(),
    messages: listOf(messageSchema(limits), limits.messages, 1),
    system: textOrBlocks(limits).optional(),
    tools: toolList(limits).optional(),
    tool_choice: toolChoice.optional(),
    thinking: thinking.optional(),
    output_config: z
      .object({
        effort: z.enum(["low", "medium", "high", "xhigh", "max"]).nullish(),
        format: outputFormat.nullish(),
      })
      .optional(),
    output_format: outputFormat.optional().describe("The older name of output_config.format"),
    context_management: contextManagement.optional(),
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

/** The body of a request to /v1/messages/count_tokens. */
export type CountTokensBody = z.infer<ReturnType<typeof countSchema>>;
/** The body of a request to /v1/messages. */
export type MessageBody = z.infer<ReturnType<typeof bodySchema>>;

/**
 * A thread is a conversation that the service stores, so that a request has its newest messages alone. Anthropic's client
 * recognises these details, and its tool runner then sends whole conversations.
 */
const NO_THREADS = {
  instead: "send the whole conversation as messages",
  details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
};

const POLICY = {
  withoutEffect: [...FIELDS_WITHOUT_EFFECT, "diagnostics", "inference_geo", "speed", "user_profile_id", "workspace_id"],
  refused: {
    container: { instead: "this server has no containers" },
    thread: NO_THREADS,
    mcp_servers: { instead: "call them yourself, through tools" },
    ...refusedFormats("use output_config.format"),
  },
  skipped: ({ tools = [] }: CountTokensBody) => describeSkipped(tools.filter((tool) => !isClientTool(tool))),
} as const satisfies Omit<RequestSchema, "fields">;

/** The schema of a request to /v1/messages. */
export function messageRequestSchema(limits: ServerLimits): RequestSchema<MessageBody> {
  return { fields: bodySchema(limits), ...POLICY };
}

/** The schema of a request to /v1/messages/count_tokens. */
export function countTokensRequestSchema(limits: ServerLimits): RequestSchema<CountTokensBody> {
  return { fields: countSchema(limits), ...POLICY };
}

/** The prompt of the chat that a request asks for. */
export function messagePrompt(body: CountTokensBody): ChatPrompt {
  const tools = messageTools(body);
  const { effort } = body.output_config ?? {};
  const format = body.output_config?.format ?? body.output_format;
  return {
    messages: messagesOf(body),
    tools,
    toolChoice: toolChoiceOf(body.tool_choice, tools),
    parallelToolCalls: !isLimited(body.tool_choice),
    // Anthropic's default: the model reasons only if the request enables it.
    reasoning: body.thinking !== undefined && body.thinking.type !== "disabled",
    templateOptions: typeof effort === "string" ? { reasoning_effort: effort } : {},
    responseFormat: format === undefined || format === null ? undefined : { kind: "schema", schema: format.schema },
  };
}

/** The chat that a request asks for. */
export function messageRequest(body: MessageBody, defaults: Partial<SamplerOptions>): ChatRequest {
  return {
    ...messagePrompt(body),
    sampling: samplingOf(body, defaults),
    stop: body.stop_sequences ?? [],
    maxTokens: body.max_tokens,
  };
}

function isLimited(choice: CountTokensBody["tool_choice"]): boolean {
  return choice !== undefined && choice.type !== "none" && choice.disable_parallel_tool_use === true;
}

function toolChoiceOf(choice: CountTokensBody["tool_choice"], tools: readonly ChatTool[]): ToolChoice {
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

type ToolResult = z.infer<ReturnType<typeof toolResult>>;
type TextOrBlocks = string | readonly { readonly text: string }[];

function textOf(content: TextOrBlocks): string {
  return typeof content === "string" ? content : content.map(({ text }) => text).join("");
}

function resultText(content: ToolResult | null | undefined): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(resultPart).join("");
}

function resultPart(part: Exclude<ToolResult, string>[number]): string {
  switch (part.type) {
    case "text":
      return part.text;
    case "search_result":
      return `${part.title}\n${part.source}\n${textOf(part.content)}\n`;
    case "tool_reference":
      return `The tool ${part.tool_name} can be called now.\n`;
    default:
      return part satisfies never;
  }
}

function messagesOf({ system, messages }: CountTokensBody): readonly ChatMessage[] {
  if (messages.at(-1)?.role === "assistant") {
    throw new RequestError(
      "[messages] expected the last message to be the user's: continuing a partial reply is not supported",
      {
        status: 400,
        code: "unsupported_parameter",
        param: "messages",
      },
    );
  }
  const [first = "", ...others] = typeof system === "string" ? [system] : (system ?? []).map(({ text }) => text);
  const instructions = [withoutBilling(first), ...others].join("");
  return [
    ...(instructions === "" ? [] : [{ role: "system", content: instructions } as const]),
    ...messages.flatMap(messageOf),
  ];
}

/**
 * Claude Code starts its system prompt with a billing line that may differ in every request. With it no prompt would share
 * a prefix with the one before, and every turn would prefill the whole conversation again.
 */
function withoutBilling(system: string): string {
  return system.replace(/^x-anthropic-billing-header:[^\n]*\n?/, "");
}

/** Tool results are part of a user message in Anthropic's API, and messages of their own in a chat. */
function messageOf({ role, content }: CountTokensBody["messages"][number]): readonly ChatMessage[] {
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
      case "tool_addition":
      case "tool_removal":
        break;
      case "tool_use":
        calls.push({ id: block.id, name: block.name, arguments: JSON.stringify(block.input) });
        break;
      case "tool_result":
        results.push({ role: "tool", content: resultText(block.content), toolCallId: block.tool_use_id });
        break;
      default:
        block satisfies never;
    }
  }
  // A message that only adds or removes tools has no text for the prompt.
  const isSilent =
    text === "" &&
    (results.length > 0 || content.some(({ type }) => type === "tool_addition" || type === "tool_removal"));
  if (role !== "assistant") return isSilent ? results : [...results, { role, content: text }];
  return [
    {
      role,
      content: text,
      ...(reasoning === "" ? {} : { reasoning }),
      ...(calls.length === 0 ? {} : { toolCalls: calls }),
    },
  ];
}
