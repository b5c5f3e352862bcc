// A chat as template variables: messages as records with OpenAI's field names. What a template does not support is
// expressed in another way: a system message at the start of the user's, a tool result as a user message, a call as
// text.

import { createHash } from "node:crypto";
import { parsedJson } from "../../plain-object.js";
import type { TemplateCapabilities } from "./capabilities.js";
import type { CallConvention } from "../output/call-syntax.js";
import type { ChatMessage, ChatTool, ChatToolCall } from "../message.js";

type MessageVariables = Readonly<Record<string, unknown>>;

/** What the template supports, and the model's convention. */
interface VariablesContext {
  readonly capabilities: TemplateCapabilities;
  readonly convention: CallConvention;
  /** Whether the template distinguishes the role "developer" from "system". */
  readonly developers: boolean;
}

const SHORT_ID = /^[A-Za-z0-9]{9}$/;

/** A text as a list of content parts. */
export function contentParts(text: string): readonly MessageVariables[] {
  return [{ type: "text", text }];
}

/** A tool as a template variable. */
export function toolVariables({ name, description, parameters }: ChatTool): MessageVariables {
  return { type: "function", function: { name, ...(description === undefined ? {} : { description }), parameters } };
}

/** The messages as template variables. */
export function messageVariables(
  messages: readonly ChatMessage[],
  tools: readonly ChatTool[],
  context: VariablesContext,
): readonly MessageVariables[] {
  const { capabilities } = context;
  const roles = messages.map((message) =>
    message.role === "developer" && !context.developers ? { ...message, role: "system" as const } : message,
  );
  const described = tools.length > 0 && !capabilities.tools ? withToolsDescribed(roles, tools) : roles;
  const taken = withNames(described).map((message) => takenMessage(message, context));
  const placed = capabilities.system ? taken : withSystemInUser(taken);
  return withUsersJoined(placed).map(({ message }) => recordOf(message, context));
}

/** `isMade` tells whether the role was substituted. */
interface TakenMessage {
  readonly message: ChatMessage;
  readonly isMade: boolean;
}

/**
 * Adds the tool's name to tool results, which refer to a call by its id; templates need the name. The arguments of a
 * call are an object.
 */
function withNames(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const names = new Map<string, string>();
  return messages.map((message) => {
    const calls = message.toolCalls?.map((call) =>
      call.arguments.trim() === "" ? { ...call, arguments: "{}" } : call,
    );
    for (const { id, name } of calls ?? []) names.set(id, name);
    const name = message.role === "tool" ? (message.name ?? names.get(message.toolCallId ?? "")) : message.name;
    return {
      ...message,
      ...(calls === undefined ? {} : { toolCalls: calls }),
      ...(name === undefined ? {} : { name }),
    };
  });
}

/** Describes the tools in the system message, for templates that do not support tools. */
function withToolsDescribed(messages: readonly ChatMessage[], tools: readonly ChatTool[]): readonly ChatMessage[] {
  const list = tools
    .map((tool) => JSON.stringify({ name: tool.name, description: tool.description, parameters: tool.parameters }))
    .join("\n");
  const advice = `You can call these functions:\n${list}\nTo call one, answer with nothing but JSON: {"name": <name>, "arguments": <arguments>}`;
  const [first, ...rest] = messages;
  if (first?.role !== "system") return [{ role: "system", content: advice }, ...messages];
  return [{ ...first, content: `${first.content}\n\n${advice}` }, ...rest];
}

function takenMessage(message: ChatMessage, { capabilities }: VariablesContext): TakenMessage {
  if (message.role === "tool" && !capabilities.results) {
    return {
      message: { role: "user", content: `Result of ${message.name ?? "the call"}:\n${message.content}` },
      isMade: true,
    };
  }
  if (capabilities.calls !== undefined || message.toolCalls === undefined || message.toolCalls.length === 0)
    return { message, isMade: false };
  const { toolCalls, ...rest } = message;
  const calls = toolCalls.map(
    ({ name, arguments: given }) => `{"name": ${JSON.stringify(name)}, "arguments": ${given}}`,
  );
  return {
    message: { ...rest, content: [message.content, ...calls].filter((text) => text !== "").join("\n") },
    isMade: false,
  };
}

function withSystemInUser(messages: readonly TakenMessage[]): readonly TakenMessage[] {
  const placed: TakenMessage[] = [];
  const waiting: string[] = [];
  for (const { message, isMade } of messages) {
    if (message.role === "system" || message.role === "developer") waiting.push(message.content);
    else if (message.role === "user")
      placed.push({ message: { ...message, content: [...waiting.splice(0), message.content].join("\n\n") }, isMade });
    else placed.push({ message, isMade });
  }
  if (waiting.length > 0) placed.push({ message: { role: "user", content: waiting.join("\n\n") }, isMade: true });
  return placed;
}

/**
 * Joins consecutive user messages if one of them was substituted: many templates demand that user and assistant
 * alternate.
 */
function withUsersJoined(messages: readonly TakenMessage[]): readonly TakenMessage[] {
  const all: TakenMessage[] = [];
  for (const next of messages) {
    const last = all.at(-1);
    if (last?.message.role === "user" && next.message.role === "user" && (last.isMade || next.isMade)) {
      all[all.length - 1] = {
        message: { ...last.message, content: `${last.message.content}\n\n${next.message.content}` },
        isMade: true,
      };
    } else all.push(next);
  }
  return all;
}

function recordOf(message: ChatMessage, { capabilities, convention }: VariablesContext): MessageVariables {
  const { role, content, name, reasoning, toolCalls, toolCallId } = message;
  const calls = toolCalls ?? [];
  return {
    role,
    content:
      content === "" && calls.length > 0
        ? capabilities.noContent
        : capabilities.parts
          ? contentParts(content)
          : content,
    ...(name === undefined ? {} : { name }),
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(toolCallId === undefined ? {} : { tool_call_id: knownId(toolCallId, convention) }),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map((call) => callVariables(call, capabilities.calls, convention)) }),
  };
}

function callVariables(
  { id, name, arguments: text }: ChatToolCall,
  form: "object" | "text" | undefined,
  convention: CallConvention,
): MessageVariables {
  return {
    id: knownId(id, convention),
    type: "function",
    function: { name, arguments: form === "text" ? text : parsedArguments(text) },
  };
}

function parsedArguments(text: string): unknown {
  const value = parsedJson(text);
  return value === undefined ? text : value;
}

/** Ids that templates of this convention accept; a call and its result keep the same one. */
function knownId(id: string, convention: CallConvention): string {
  if (convention !== "bracketed" || SHORT_ID.test(id)) return id;
  return createHash("sha256").update(id).digest("hex").slice(0, 9);
}
