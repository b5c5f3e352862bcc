// The fields of /v1/responses, and the chat that they ask for. Stateless: everything is in the request.

import { z } from "zod";
import type { ChatMessage, ChatTool, ToolChoice } from "../../chat/message.js";
import type { GrammarSpec } from "../../grammar/grammar-spec.js";
import type { SamplerOptions } from "../../sampler/options.js";
import type { ChatJob } from "../chat-run.js";
import { anyObject, FIELDS_WITHOUT_EFFECT, ignored, MAX_TOP_LOGPROBS, modelName, name, samplingFields, samplingOf } from "../fields.js";
import type { ServerLimits } from "../limits.js";
import { listOf } from "../list-schema.js";
import type { RequestForm } from "../request-form.js";
import { defaultToolChoice, reasoningEffort, toolName, toolOf } from "../tool-fields.js";

export const INCLUDE_LOGPROBS = "message.output_text.logprobs";

/** In a message of whatever role: clients give back what they were given. */
const contentPart = z.discriminatedUnion("type", [
  z.object({ type: z.literal("input_text"), text: z.string(), prompt_cache_breakpoint: ignored }),
  z.object({ type: z.literal("output_text"), text: z.string(), annotations: ignored, logprobs: ignored }),
  z.object({ type: z.literal("refusal"), refusal: z.string() }),
]);
const thought = z.object({ type: z.literal("reasoning_text"), text: z.string() });

function contentOf(limits: ServerLimits) {
  return z.union([z.string(), listOf(contentPart, limits.contentParts)], { error: "expected text, or a list of parts of text" });
}

function inputItem(limits: ServerLimits) {
  const content = contentOf(limits);
  const marks = { id: z.string().nullish(), status: ignored };
  return z.union(
    [
      z.discriminatedUnion("type", [
        z.object({ type: z.literal("message"), role: z.enum(["system", "developer", "user", "assistant"]), content, phase: ignored, ...marks }),
        z.object({ type: z.literal("function_call"), call_id: name, name: toolName, arguments: z.string(), caller: ignored, ...marks }),
        z.object({ type: z.literal("function_call_output"), call_id: name, output: content, caller: ignored, ...marks }),
        z.object({
          type: z.literal("reasoning"),
          summary: ignored,
          content: listOf(thought, limits.contentParts).nullish(),
          encrypted_content: z.null().optional(),
          ...marks,
        }),
      ]),
      // A message may leave its type out.
      z.object({ type: z.null().optional(), role: z.enum(["system", "developer", "user", "assistant"]), content, phase: ignored }),
    ],
    { error: "expected a message, a function_call, a function_call_output or a reasoning item" },
  );
}

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
});

function bodySchema(limits: ServerLimits) {
  return z.object({
    model: modelName.optional(),
    input: z.union([z.string(), listOf(inputItem(limits), limits.messages, 1)], { error: "expected text, or a list of items" }),
    instructions: z.string().optional(),
    ...samplingFields(limits),
    max_output_tokens: z.int().min(1).optional(),
    text: z.object({ format: textFormat.nullish(), verbosity: z.literal("medium").nullish() }).optional(),
    tools: listOf(z.discriminatedUnion("type", [functionTool]), limits.tools).optional(),
    tool_choice: z
      .union([z.enum(["none", "auto", "required"]), z.object({ type: z.literal("function"), name: toolName })], {
        error: `expected "none", "auto", "required" or { "type": "function", "name": … }`,
      })
      .optional(),
    reasoning: z.object({ effort: reasoningEffort.nullish(), summary: ignored, generate_summary: ignored, context: ignored }).optional(),
    include: listOf(z.string(), limits.contentParts).optional().describe(`Only ${INCLUDE_LOGPROBS} adds something`),
    top_logprobs: z.int().min(0).max(MAX_TOP_LOGPROBS).optional(),
    stream: z.boolean().optional(),
  });
}

export type ResponseBody = z.infer<ReturnType<typeof bodySchema>>;

export function responseForm(limits: ServerLimits): RequestForm<ResponseBody> {
  const stateless = { instead: "this server keeps nothing; send the whole conversation as input" };
  return {
    schema: bodySchema(limits),
    withoutEffect: [...FIELDS_WITHOUT_EFFECT, "stream_options", "max_tool_calls"],
    refused: {
      previous_response_id: stateless,
      conversation: stateless,
      prompt: stateless,
      background: { instead: "wait for the answer, or stream it", unless: [false] },
      truncation: { instead: "shorten the input", unless: ["disabled"] },
      context_management: { instead: "shorten the input" },
      moderation: { instead: "this server moderates nothing" },
    },
  };
}

export function responseJob(body: ResponseBody, defaults: Partial<SamplerOptions>): ChatJob {
  const tools = (body.tools ?? []).map(toolOf);
  const effort = body.reasoning?.effort ?? undefined;
  const wantsLogprobs = body.top_logprobs !== undefined || body.include?.includes(INCLUDE_LOGPROBS) === true;
  return {
    model: body.model,
    messages: messagesOf(body),
    tools,
    toolChoice: toolChoiceOf(body.tool_choice, tools),
    thinking: effort === undefined ? undefined : effort !== "none",
    templateOptions: effort === undefined ? {} : { reasoning_effort: effort },
    format: formatOf(body),
    fields: { messages: "input", format: "text.format" },
    sampling: samplingOf(body, defaults),
    stop: [],
    choices: 1,
    maxTokens: body.max_output_tokens,
    topLogprobs: wantsLogprobs ? (body.top_logprobs ?? 0) : undefined,
    ignoreEndOfGeneration: false,
  };
}

function formatOf({ text }: ResponseBody): GrammarSpec | undefined {
  const format = text?.format;
  if (format === undefined || format === null || format.type === "text") return undefined;
  return format.type === "json_object" ? { kind: "json" } : { kind: "schema", schema: format.schema };
}

function toolChoiceOf(choice: ResponseBody["tool_choice"], tools: readonly ChatTool[]): ToolChoice {
  if (choice === undefined) return defaultToolChoice(tools);
  return typeof choice === "string" ? { kind: choice } : { kind: "named", name: choice.name };
}

function textOf(content: z.infer<ReturnType<typeof contentOf>>): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "refusal" ? part.refusal : part.text)).join("");
}

type InputItem = Exclude<ResponseBody["input"], string>[number];

/** Items stand one after another; thoughts, words and calls of one turn are one message of the assistant. */
function messagesOf({ input, instructions }: ResponseBody): readonly ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (instructions !== undefined) messages.push({ role: "system", content: instructions });
  if (typeof input === "string") messages.push({ role: "user", content: input });
  else for (const item of input) addItem(messages, item);
  return messages;
}

function addItem(messages: ChatMessage[], item: InputItem): void {
  switch (item.type) {
    case "function_call": {
      const call = { id: item.call_id, name: item.name, arguments: item.arguments };
      const turn = openTurn(messages, true);
      messages.push({ ...turn, toolCalls: [...(turn.toolCalls ?? []), call] });
      break;
    }
    case "function_call_output":
      messages.push({ role: "tool", content: textOf(item.output), toolCallId: item.call_id });
      break;
    case "reasoning": {
      const reasoning = (item.content ?? []).map(({ text }) => text).join("\n");
      if (reasoning !== "") messages.push({ role: "assistant", content: "", reasoning });
      break;
    }
    default: {
      const content = textOf(item.content);
      if (item.role === "assistant") messages.push({ ...openTurn(messages, false), content });
      else messages.push({ role: item.role, content });
    }
  }
}

/** Takes the assistant's last message where what follows belongs to it: words follow thoughts, calls follow either. */
function openTurn(messages: ChatMessage[], afterWords: boolean): ChatMessage {
  const last = messages.at(-1);
  if (last?.role !== "assistant" || (!afterWords && (last.content !== "" || last.toolCalls !== undefined))) return { role: "assistant", content: "" };
  messages.pop();
  return last;
}
