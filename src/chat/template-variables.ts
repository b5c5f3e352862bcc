// A chat as templates know it: messages as records with OpenAI's names for their fields. What a template cannot take is
// said in another way: a system message at the head of the user's, a tool's result as the user's words, a call as text.

import { createHash } from "node:crypto";
import type { TemplateCapabilities } from "./capabilities.js";
import type { CallConvention } from "./call-syntax.js";
import type { ChatMessage, ChatTool, ChatToolCall } from "./message.js";

type MessageVariables = Readonly<Record<string, unknown>>;

export interface VariablesContext {
  readonly capabilities: TemplateCapabilities;
  readonly convention: CallConvention;
  /** The template knows developers, and they are not just the system. */
  readonly developers: boolean;
}

const SHORT_ID = /^[A-Za-z0-9]{9}$/;

export function contentParts(text: string): readonly MessageVariables[] {
  return [{ type: "text", text }];
}

export function toolVariables({ name, description, parameters }: ChatTool): MessageVariables {
  return { type: "function", function: { name, ...(description === undefined ? {} : { description }), parameters } };
}

export function messageVariables(messages: readonly ChatMessage[], tools: readonly ChatTool[], context: VariablesContext): readonly MessageVariables[] {
  const { capabilities } = context;
  const roles = messages.map((message) => (message.role === "developer" && !context.developers ? { ...message, role: "system" as const } : message));
  const told = tools.length > 0 && !capabilities.tools ? withToolsTold(roles, tools) : roles;
  const taken = told.map((message) => takenMessage(message, context));
  const placed = capabilities.system ? taken : withSystemInUser(taken);
  return placed.map((message) => recordOf(message, context));
}

/** For templates that know of no tools: the system message says it all. */
function withToolsTold(messages: readonly ChatMessage[], tools: readonly ChatTool[]): readonly ChatMessage[] {
  const list = tools.map((tool) => JSON.stringify({ name: tool.name, description: tool.description, parameters: tool.parameters })).join("\n");
  const advice = `You can call these functions:\n${list}\nTo call one, answer with nothing but JSON: {"name": <name>, "arguments": <arguments>}`;
  const [first, ...rest] = messages;
  if (first?.role !== "system") return [{ role: "system", content: advice }, ...messages];
  return [{ ...first, content: `${first.content}\n\n${advice}` }, ...rest];
}

function takenMessage(message: ChatMessage, { capabilities }: VariablesContext): ChatMessage {
  if (message.role === "tool" && !capabilities.results) {
    return { role: "user", content: `Result of ${message.name ?? "the call"}:\n${message.content}` };
  }
  if (capabilities.calls !== undefined || message.toolCalls === undefined || message.toolCalls.length === 0) return message;
  const { toolCalls, ...rest } = message;
  const calls = toolCalls.map(({ name, arguments: given }) => `{"name": ${JSON.stringify(name)}, "arguments": ${given}}`);
  return { ...rest, content: [message.content, ...calls].filter((text) => text !== "").join("\n") };
}

function withSystemInUser(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const placed: ChatMessage[] = [];
  const waiting: string[] = [];
  for (const message of messages) {
    if (message.role === "system" || message.role === "developer") waiting.push(message.content);
    else if (message.role === "user") placed.push({ ...message, content: [...waiting.splice(0), message.content].join("\n\n") });
    else placed.push(message);
  }
  if (waiting.length > 0) placed.push({ role: "user", content: waiting.join("\n\n") });
  return placed;
}

function recordOf(message: ChatMessage, { capabilities, convention }: VariablesContext): MessageVariables {
  const { role, content, name, reasoning, toolCalls, toolCallId } = message;
  const calls = toolCalls ?? [];
  return {
    role,
    content: content === "" && calls.length > 0 ? capabilities.noContent : capabilities.parts ? contentParts(content) : content,
    ...(name === undefined ? {} : { name }),
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(toolCallId === undefined ? {} : { tool_call_id: knownId(toolCallId, convention) }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map((call) => callVariables(call, capabilities.calls, convention)) }),
  };
}

function callVariables({ id, name, arguments: text }: ChatToolCall, form: "object" | "text" | undefined, convention: CallConvention): MessageVariables {
  return { id: knownId(id, convention), type: "function", function: { name, arguments: form === "text" ? text : parsedArguments(text) } };
}

function parsedArguments(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Templates of this convention refuse ids that others make; a call and its result keep the same one. */
function knownId(id: string, convention: CallConvention): string {
  if (convention !== "bracketed" || SHORT_ID.test(id)) return id;
  return createHash("sha256").update(id).digest("hex").slice(0, 9);
}
