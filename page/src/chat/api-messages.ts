// A branch of a conversation as the messages of a request.

import type { ApiMessage, ChatFields } from "../api/chat";
import type { Attachment, ChatSettings, Message } from "./message";

/** The messages of a request: the system prompt, then the branch; answers that failed without a word are left out. */
export function apiMessages(branch: readonly Message[], { systemPrompt }: ChatSettings): readonly ApiMessage[] {
  const system: readonly ApiMessage[] = systemPrompt.trim() === "" ? [] : [{ role: "system", content: systemPrompt }];
  return [...system, ...branch.filter((message) => !isEmptyAnswer(message)).map(apiMessage)];
}

function isEmptyAnswer({ role, content, toolCalls = [] }: Message): boolean {
  return role === "assistant" && content === "" && toolCalls.length === 0;
}

function apiMessage(message: Message): ApiMessage {
  const { role, content, attachments = [], toolCalls = [], toolCallId } = message;
  if (role === "tool") return { role, content, tool_call_id: toolCallId ?? "" };
  if (role === "user") return { role, content: withAttachments(content, attachments) };
  if (toolCalls.length === 0) return { role, content };
  return {
    role,
    content,
    tool_calls: toolCalls.map(({ id, name, arguments: text }) => ({
      id,
      type: "function",
      function: { name, arguments: text },
    })),
  };
}

/** Attached texts come before the question, each in a fence that its own text does not contain. */
export function withAttachments(content: string, attachments: readonly Attachment[]): string {
  const files = attachments.map(({ name, text }) => {
    let fence = "```";
    while (text.includes(fence)) fence += "`";
    return `${name}:\n${fence}\n${text.trimEnd()}\n${fence}`;
  });
  return [...files, content].join("\n\n");
}

/** The fields of a request that the settings determine. Throws if the list of tools is not valid. */
export function settingFields(settings: ChatSettings): Omit<ChatFields, "model" | "messages"> {
  const { temperature, topP, topK, minP, repetitionPenalty, maxTokens, seed, reasoning } = settings;
  const tools = parseTools(settings.tools);
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(topK === undefined ? {} : { top_k: topK }),
    ...(minP === undefined ? {} : { min_p: minP }),
    ...(repetitionPenalty === undefined ? {} : { repetition_penalty: repetitionPenalty }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(seed === undefined ? {} : { seed }),
    ...(reasoning === "default" ? {} : { reasoning_effort: reasoning === "off" ? "none" : reasoning }),
    ...(tools.length === 0 ? {} : { tools }),
  };
}

/** The tools of a JSON text; functions may be given with or without their wrapper. */
export function parseTools(text: string): readonly object[] {
  if (text.trim() === "") return [];
  const value: unknown = JSON.parse(text);
  if (!Array.isArray(value)) throw new TypeError("Tools have to be a JSON list.");
  return value.map((tool: unknown) => {
    if (typeof tool !== "object" || tool === null) throw new TypeError("Each tool has to be a JSON object.");
    return "function" in tool ? tool : { type: "function", function: tool };
  });
}
