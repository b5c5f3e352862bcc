// The messages of Ollama's chats. Invariant: every call and its result have an id, which templates may require; clients of
// this API often send none, and a result then belongs to the first unanswered call of its tool.

import { z } from "zod";
import type { ChatMessage, ChatToolCall } from "../../../chat/message.js";
import type { ServerLimits } from "../../http/limits.js";
import { anyObject, ignored, name } from "../../schema/fields.js";
import { listOf } from "../../schema/list-schema.js";
import { toolName } from "../../schema/tool-fields.js";
import { noImages } from "./fields.js";

/** The schema of a message. */
export function messageSchema(limits: ServerLimits) {
  const toolCall = z.object({
    id: name.nullish(),
    type: ignored,
    function: z.object({ name: toolName, arguments: anyObject.nullish(), index: ignored, description: ignored }),
  });
  return z.object({
    role: z.enum(["system", "user", "assistant", "tool"]),
    content: z.string().nullish(),
    thinking: z.string().nullish(),
    images: noImages,
    tool_calls: listOf(toolCall, limits.tools).nullish(),
    tool_name: z.string().max(256).nullish(),
    tool_call_id: z.string().max(256).nullish(),
    name: ignored,
  });
}

type Message = z.infer<ReturnType<typeof messageSchema>>;

/** The messages of a chat, with ids for calls and results that have none. */
export function chatMessages(messages: readonly Message[]): readonly ChatMessage[] {
  const calls = new UnansweredCalls();
  return messages.map((message) => {
    const { role, thinking, tool_calls: made } = message;
    const content = message.content ?? "";
    if (role === "tool") return { role, content, ...calls.answer(message) };
    if (role !== "assistant") return { role, content };
    return {
      role,
      content,
      ...(typeof thinking === "string" && thinking !== "" ? { reasoning: thinking } : {}),
      ...(made === undefined || made === null || made.length === 0 ? {} : { toolCalls: calls.add(made) }),
    };
  });
}

/** The calls of a conversation whose results have not come yet. */
class UnansweredCalls {
  readonly #calls: ChatToolCall[] = [];
  #made = 0;

  add(made: NonNullable<Message["tool_calls"]>): readonly ChatToolCall[] {
    const calls = made.map(({ id, function: { name: tool, arguments: given } }) => ({
      id: id ?? `call_${this.#made++}`,
      name: tool,
      arguments: JSON.stringify(given ?? {}),
    }));
    this.#calls.push(...calls);
    return calls;
  }

  answer({ tool_name: tool, tool_call_id: id }: Message): Pick<ChatMessage, "name" | "toolCallId"> {
    const isGiven = (text: string | null | undefined): text is string => typeof text === "string" && text !== "";
    const answered = isGiven(id)
      ? this.#calls.findIndex((call) => call.id === id)
      : this.#calls.findIndex((call) => !isGiven(tool) || call.name === tool);
    const [call] = answered === -1 ? [] : this.#calls.splice(answered, 1);
    const toolOfCall = isGiven(tool) ? tool : call?.name;
    return {
      ...(toolOfCall === undefined ? {} : { name: toolOfCall }),
      toolCallId: isGiven(id) ? id : (call?.id ?? `call_${this.#made++}`),
    };
  }
}
