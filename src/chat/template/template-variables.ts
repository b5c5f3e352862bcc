// A chat as template variables: messages as records with OpenAI's field names. What a template does not support is
// expressed in another way: a system message at the start of the user's, a tool result as a user message, a call as
// text.

import { isPlainObject, parsedJson } from "../../plain-object.js";
import type { TemplateCapabilities } from "./capabilities.js";
import { callIds } from "./call-ids.js";
import type { CallConvention } from "../output/conventions.js";
import type { ChatMessage, ChatTool, ChatToolCall } from "../message.js";
import { toolsAdvice, toolsField } from "./tool-variables.js";

type MessageVariables = Readonly<Record<string, unknown>>;

/** What the template supports, and the model's convention. */
interface VariablesContext {
  readonly capabilities: TemplateCapabilities;
  readonly convention: CallConvention;
  /** Whether the template distinguishes the role "developer" from "system". */
  readonly developers: boolean;
}

/** A text as a list of content parts. */
export function contentParts(text: string): readonly MessageVariables[] {
  return [{ type: "text", text }];
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
  const described =
    tools.length > 0 && capabilities.tools === undefined
      ? withAdvice(roles, toolsAdvice(tools, context.convention))
      : roles;
  const named = withNames(described);
  const single = capabilities.parallelCalls ? named : withSingleCalls(named);
  const taken = single.map((message) => takenMessage(message, context));
  const placed = capabilities.system ? taken : withSystemInUser(taken);
  const joined = withUsersJoined(placed);
  const told = capabilities.results === "field" ? withResultsInCalls(joined) : joined;
  const idOf = callIds(context.convention, messages);
  const records = told.map((each) => recordOf(each, context, idOf));
  return tools.length > 0 && capabilities.tools?.inSystem === true
    ? withField(records, toolsField(tools, capabilities.tools), capabilities.parts)
    : records;
}

/** Adds a field to the system message; there will be one. */
function withField(
  records: readonly MessageVariables[],
  field: MessageVariables,
  parts: boolean,
): readonly MessageVariables[] {
  const [first, ...rest] = records;
  if (first?.["role"] === "system") return [{ ...first, ...field }, ...rest];
  return [{ role: "system", content: parts ? contentParts("") : "", ...field }, ...records];
}

/** `isMade` tells whether the role was substituted. */
interface TakenMessage {
  readonly message: ChatMessage;
  readonly isMade: boolean;
  /** The results of its calls, if the template takes them as a field. */
  readonly results?: readonly ChatMessage[];
}

/** Gives each call a message of its own, followed by its result, for templates that render one call of a message. */
function withSingleCalls(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const all: ChatMessage[] = [];
  const moved = new Set<ChatMessage>();
  for (const message of messages) {
    const { toolCalls = [] } = message;
    if (toolCalls.length < 2) {
      if (!moved.has(message)) all.push(message);
      continue;
    }
    for (const [index, call] of toolCalls.entries()) {
      const { reasoning: _, ...rest } = message;
      all.push(index === 0 ? { ...message, toolCalls: [call] } : { ...rest, content: "", toolCalls: [call] });
      const result = messages.find(({ role, toolCallId }) => role === "tool" && toolCallId === call.id);
      if (result === undefined || moved.has(result)) continue;
      moved.add(result);
      all.push(result);
    }
  }
  return all;
}

/**
 * Moves results into the message with their calls, and the answer behind them, too: the model's turn goes on there. Text
 * in front of the calls has a message of its own.
 */
function withResultsInCalls(messages: readonly TakenMessage[]): readonly TakenMessage[] {
  const all: TakenMessage[] = [];
  for (const next of messages) {
    const last = all.at(-1);
    const { message } = next;
    if (message.role === "tool" && last !== undefined && (last.message.toolCalls ?? []).length > 0) {
      all[all.length - 1] = { ...last, results: [...(last.results ?? []), message] };
    } else if (message.role === "assistant" && (message.toolCalls ?? []).length > 0 && message.content !== "") {
      all.push(
        { ...next, message: { role: message.role, content: message.content } },
        { ...next, message: { ...message, content: "" } },
      );
    } else if (message.role === "assistant" && last?.results !== undefined && message.toolCalls === undefined) {
      all[all.length - 1] = { ...last, message: { ...last.message, content: message.content } };
    } else all.push(next);
  }
  return all;
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
function withAdvice(messages: readonly ChatMessage[], advice: string): readonly ChatMessage[] {
  const [first, ...rest] = messages;
  if (first?.role !== "system") return [{ role: "system", content: advice }, ...messages];
  return [{ ...first, content: `${first.content}\n\n${advice}` }, ...rest];
}

function takenMessage(message: ChatMessage, { capabilities }: VariablesContext): TakenMessage {
  if (message.role === "tool" && capabilities.results === undefined) {
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

function recordOf(
  { message, results }: TakenMessage,
  { capabilities, convention }: VariablesContext,
  idOf: (id: string) => string,
): MessageVariables {
  const { role, name, toolCalls, toolCallId } = message;
  const calls = toolCalls ?? [];
  return {
    role,
    ...contentVariables(message, capabilities, convention),
    ...(name === undefined ? {} : { name }),
    ...(toolCallId === undefined ? {} : { tool_call_id: idOf(toolCallId) }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map((call) => callVariables(call, capabilities.calls, idOf)) }),
    ...(results === undefined ? {} : { tool_responses: results.map(responseVariables) }),
  };
}

/** The text and the reasoning of a message. */
function contentVariables(
  { content, reasoning, toolCalls = [] }: ChatMessage,
  { noContent, parts, reasoning: form }: TemplateCapabilities,
  convention: CallConvention,
): MessageVariables {
  const contentOf = (text: string): unknown =>
    text === "" && toolCalls.length > 0 ? noContent : parts ? contentParts(text) : text;
  if (reasoning === undefined) return { content: contentOf(content) };
  if (form === "part") return { content: [{ type: "thinking", thinking: reasoning }, ...contentParts(content)] };
  // Harmony's template refuses a call with both, and shows either as analysis.
  if (convention === "harmony" && toolCalls.length > 0 && content !== "")
    return { content: contentOf(""), [form]: `${reasoning}\n\n${content}` };
  return { content: contentOf(content), [form]: reasoning };
}

function callVariables(
  { id, name, arguments: text }: ChatToolCall,
  form: "object" | "text" | undefined,
  idOf: (id: string) => string,
): MessageVariables {
  return {
    id: idOf(id),
    type: "function",
    function: { name, arguments: form === "text" ? text : parsedArguments(text) },
  };
}

function responseVariables({ name, content }: ChatMessage): MessageVariables {
  const value = parsedJson(content);
  return { name: name ?? "unknown", response: isPlainObject(value) ? value : content };
}

function parsedArguments(text: string): unknown {
  const value = parsedJson(text);
  return value === undefined ? text : value;
}
