// Options of a chat, and their translation to a request of the completion layer.

import type { ChatMessage, ChatTool, ToolChoice } from "../chat/message.js";
import type { ChatRequest } from "../completion/chat-request.js";
import { refuseValue } from "../options.js";
import { isPlainObject } from "../plain-object.js";
import { checkOptions, flag, type OptionCheck, type OptionChecks } from "./checked-options.js";
import { GENERATE_CHECKS, type GenerateOptions, stopList } from "./generate-options.js";
import { textFormat, type FormatOptions } from "./response-format.js";
import { jsonSchemaOf, type JsonSchema, type ReplySchema } from "./response-schema.js";

/** A function that the model may ask the caller to run. */
export interface Tool {
  readonly name: string;
  /** What it does and when to use it, written for the model. */
  readonly description?: string;
  /** The schema of its arguments, a JSON Schema or a Standard Schema; without one it takes no arguments. */
  readonly parameters?: ReplySchema<unknown>;
}

/** Whether the model may call tools ("auto"), must not ("none"), must ("required"), or must call the named one. */
export type ToolChoiceOption = "auto" | "none" | "required" | { readonly name: string };

/** Options of `model.chat`: those of `model.generate`, and those that only chats have. */
export interface ChatOptions<Value = undefined>
  extends
    Omit<GenerateOptions, "parseSpecial" | "dryBreakers" | "priority" | keyof FormatOptions>,
    FormatOptions<Value> {
  /** Aborting ends the chat with the text so far and the finish reason "abort", as leaving the loop does. */
  readonly signal?: AbortSignal;
  readonly tools?: readonly Tool[];
  /** "auto" by default if there are tools. */
  readonly toolChoice?: ToolChoiceOption;
  /** Whether a reply may have several calls; true by default. */
  readonly parallelToolCalls?: boolean;
  /** Whether the model reasons before it replies; decided by its template if undefined. */
  readonly reasoning?: boolean;
  /** Further variables for the model's chat template. */
  readonly templateOptions?: Readonly<Record<string, unknown>>;
}

const { parseSpecial: _parse, dryBreakers: _breakers, priority: _priority, ...SHARED_CHECKS } = GENERATE_CHECKS;

const record: OptionCheck = (where, option, value) => {
  if (value !== undefined && !isPlainObject(value)) refuseValue(where, option, "an object", value);
};

const CHAT_CHECKS: OptionChecks<ChatOptions<unknown>> = {
  ...SHARED_CHECKS,
  tools: (where, option, value) => {
    if (value === undefined) return;
    if (!Array.isArray(value)) refuseValue(where, option, "a list of tools", value);
    for (const [index, tool] of (value as readonly unknown[]).entries()) {
      if (!isPlainObject(tool) || typeof tool["name"] !== "string" || tool["name"] === "")
        refuseValue(where, `${option}[${index}]`, "a tool with a name", tool);
    }
  },
  toolChoice: (where, option, value) => {
    if (value === undefined || ["auto", "none", "required"].includes(value as string)) return;
    if (!isPlainObject(value) || typeof value["name"] !== "string")
      refuseValue(where, option, '"auto", "none", "required" or { name }', value);
  },
  parallelToolCalls: flag,
  reasoning: flag,
  templateOptions: record,
};

const ROLES: readonly unknown[] = ["system", "developer", "user", "assistant", "tool"];

/** Throws for anything that is not a list of messages, naming the first invalid one. */
export function checkMessages(where: string, messages: unknown): asserts messages is readonly ChatMessage[] {
  if (!Array.isArray(messages) || messages.length === 0)
    refuseValue(where, "messages", 'a list such as [{ role: "user", content: "Hello" }]', messages);
  for (const [index, message] of (messages as readonly unknown[]).entries()) {
    const place = `messages[${index}]`;
    if (!isPlainObject(message)) refuseValue(where, place, "a message with role and content", message);
    if (!ROLES.includes(message["role"]))
      refuseValue(where, `${place}.role`, `one of ${ROLES.join(", ")}`, message["role"]);
    if (typeof message["content"] !== "string") refuseValue(where, `${place}.content`, "text", message["content"]);
    checkCalls(where, place, message["toolCalls"]);
  }
}

function checkCalls(where: string, place: string, calls: unknown): void {
  if (calls === undefined) return;
  const isCall = (call: unknown): boolean =>
    isPlainObject(call) && ["id", "name", "arguments"].every((name) => typeof call[name] === "string");
  if (!Array.isArray(calls) || !calls.every(isCall))
    refuseValue(where, `${place}.toolCalls`, "calls with id, name and arguments as JSON text", calls);
}

/** Checks the options of a chat and translates them. */
export function chatRequest(messages: readonly ChatMessage[], options: ChatOptions<unknown>): ChatRequest {
  checkOptions("chat", options, CHAT_CHECKS);
  checkMessages("chat", messages);
  const { maxTokens, stop, topLogprobs, ignoreEndOfGeneration, reasoning, templateOptions, ...rest } = options;
  const { tools = [], toolChoice, parallelToolCalls, schema, regex, grammar, ...more } = rest;
  const { signal: _signal, timeoutMs: _timeoutMs, ...sampling } = more;
  const responseFormat = textFormat("chat", { schema, regex, grammar });
  return {
    messages,
    tools: tools.map(chatTool),
    toolChoice: choiceOf(toolChoice),
    parallelToolCalls,
    responseFormat,
    reasoning,
    templateOptions,
    maxTokens,
    stop: stopList(stop),
    topLogprobs,
    ignoreEndOfGeneration,
    sampling,
  };
}

const NO_PARAMETERS: JsonSchema = { type: "object", properties: {}, additionalProperties: false };

function chatTool({ name, description, parameters }: Tool, index: number): ChatTool {
  const schema = parameters === undefined ? NO_PARAMETERS : jsonSchemaOf(parameters, `tools[${index}].parameters`);
  return { name, ...(description === undefined ? {} : { description }), parameters: schema };
}

function choiceOf(choice: ToolChoiceOption | undefined): ToolChoice | undefined {
  return typeof choice === "object" ? { kind: "named", name: choice.name } : choice && { kind: choice };
}
