// The items of /v1/responses, as clients send them and as responses contain them, and their conversion to chat messages.
// Invariant: every output item is a valid input item.

import { z } from "zod";
import type { ChatMessage } from "../../../../chat/message.js";
import { ignored, name } from "../../../schema/fields.js";
import type { ServerLimits } from "../../../http/limits.js";
import { listOf } from "../../../schema/list-schema.js";
import { toolName } from "../../../schema/tool-fields.js";

const ROLES = ["system", "developer", "user", "assistant"] as const;
/** Marks encrypted_content that this server wrote. */
const REASONING_PREFIX = "rocmforge-1:";

/** Content parts are accepted in messages of every role: clients send back what they got. */
const contentPart = z.discriminatedUnion("type", [
  z.object({ type: z.literal("input_text"), text: z.string(), prompt_cache_breakpoint: ignored }),
  z.object({ type: z.literal("output_text"), text: z.string(), annotations: ignored, logprobs: ignored }),
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.literal("refusal"), refusal: z.string() }),
]);
const thought = z.discriminatedUnion("type", [
  z.object({ type: z.literal("reasoning_text"), text: z.string() }),
  z.object({ type: z.literal("text"), text: z.string() }),
]);

function contentOf(limits: ServerLimits) {
  return z.union([z.string(), listOf(contentPart, limits.contentParts)], {
    error: "expected text, or a list of parts of text",
  });
}

function itemSchemas(limits: ServerLimits) {
  const content = contentOf(limits);
  const marks = { id: z.string().nullish(), status: ignored, internal_chat_message_metadata_passthrough: ignored };
  return [
    z.object({ type: z.literal("message"), role: z.enum(ROLES), content, phase: ignored, ...marks }),
    z.object({
      type: z.literal("function_call"),
      call_id: name,
      name: toolName,
      arguments: z.string(),
      caller: ignored,
      ...marks,
    }),
    z.object({ type: z.literal("function_call_output"), call_id: name, output: content, caller: ignored, ...marks }),
    z.object({
      type: z.literal("reasoning"),
      summary: ignored,
      content: listOf(thought, limits.contentParts).nullish(),
      encrypted_content: z.string().nullish(),
      ...marks,
    }),
  ] as const;
}

/** The schema of an input item. */
export function inputItem(limits: ServerLimits) {
  return z.union(
    [
      z.discriminatedUnion("type", [...itemSchemas(limits), z.object({ type: z.literal("item_reference"), id: name })]),
      // The type of a message or of a reference may be omitted.
      z.object({
        type: z.null().optional(),
        role: z.enum(ROLES),
        content: contentOf(limits),
        phase: ignored,
        id: z.string().nullish(),
        status: ignored,
      }),
      z.object({ type: z.null().optional(), id: name }),
    ],
    { error: "expected a message, a function_call, a function_call_output, a reasoning item or an item_reference" },
  );
}

/** An input item as clients send it. */
type InputItem = z.infer<ReturnType<typeof inputItem>>;
/** An item with its content, not a reference. */
export type Item = z.infer<ReturnType<typeof itemSchemas>[number]>;

/** The item itself, or the id that it references. */
export function itemOrReference(given: InputItem): Item | { readonly reference: string } {
  if ("role" in given) return { ...given, type: "message" };
  switch (given.type) {
    case "function_call":
    case "function_call_output":
    case "reasoning":
      return given;
    default:
      return { reference: given.id };
  }
}

/** Reasoning for encrypted_content: opaque to clients, but encoded, not encrypted. */
export function encodedReasoning(text: string): string {
  return Buffer.from(REASONING_PREFIX + text).toString("base64");
}

function decodedReasoning(encoded: string | null | undefined): string {
  const text = Buffer.from(encoded ?? "", "base64").toString();
  return text.startsWith(REASONING_PREFIX) ? text.slice(REASONING_PREFIX.length) : "";
}

function textOf(content: z.infer<ReturnType<typeof contentOf>>): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "refusal" ? part.refusal : part.text)).join("");
}

/** Converts items to messages: consecutive reasoning, text and calls of the assistant are one message. */
export function messagesOf(items: readonly Item[], instructions: string | undefined): readonly ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (instructions !== undefined) messages.push({ role: "system", content: instructions });
  for (const item of items) addItem(messages, item);
  return messages;
}

function addItem(messages: ChatMessage[], item: Item): void {
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
      const thoughts = (item.content ?? []).map(({ text }) => text).join("\n");
      const reasoning = thoughts === "" ? decodedReasoning(item.encrypted_content) : thoughts;
      if (reasoning !== "") messages.push({ role: "assistant", content: "", reasoning });
      break;
    }
    case "message": {
      const content = textOf(item.content);
      if (item.role === "assistant") messages.push({ ...openTurn(messages, false), content });
      else messages.push({ role: item.role, content });
      break;
    }
    default:
      item satisfies never;
  }
}

/** The assistant's last message, if the next item belongs to it: text follows reasoning, calls follow either. */
function openTurn(messages: ChatMessage[], afterWords: boolean): ChatMessage {
  const last = messages.at(-1);
  if (last?.role !== "assistant" || (!afterWords && (last.content !== "" || last.toolCalls !== undefined)))
    return { role: "assistant", content: "" };
  messages.pop();
  return last;
}
