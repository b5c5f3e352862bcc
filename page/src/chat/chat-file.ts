// Conversations as a JSON file, for keeping and for other browsers. A file is checked field by field when it is imported.

import { newId } from "../ids";
import { type Conversation, DEFAULT_SETTINGS, type Message, titleOf } from "./message";

const FORMAT = "rocmforge-chats";
const VERSION = 1;

/** A conversation with all its messages. */
export interface ChatRecord {
  readonly conversation: Conversation;
  readonly messages: readonly Message[];
}

export function writeChatFile(chats: readonly ChatRecord[]): string {
  return JSON.stringify({ format: FORMAT, version: VERSION, chats }, undefined, 1);
}

/** The conversations of a file, under new ids, so that importing a file twice overwrites nothing. */
export function readChatFile(text: string): readonly ChatRecord[] {
  const file = parsed(text);
  if (!isRecord(file) || file["format"] !== FORMAT || !Array.isArray(file["chats"]))
    throw new TypeError("This is not a file of conversations that ROCmForge exported.");
  return file["chats"].filter(isRecord).map(renamed);
}

/** One conversation's branch as Markdown. */
export function writeMarkdown(title: string, branch: readonly Message[]): string {
  const names = { user: "You", assistant: "Assistant", tool: "Tool" };
  return [`# ${title}`, ...branch.map(({ role, content }) => `## ${names[role]}\n\n${content}`)]
    .join("\n\n")
    .concat("\n");
}

function renamed(chat: Readonly<Record<string, unknown>>): ChatRecord {
  const given = isRecord(chat["conversation"]) ? chat["conversation"] : {};
  const messages = (Array.isArray(chat["messages"]) ? chat["messages"] : []).filter(isMessage);
  const conversationId = newId();
  const ids = new Map(messages.map(({ id }) => [id, newId()]));
  const renamedId = (id: unknown): string | null => ids.get(String(id)) ?? null;
  const settings = isRecord(given["settings"]) ? given["settings"] : {};
  return {
    conversation: {
      id: conversationId,
      title: typeof given["title"] === "string" ? given["title"].slice(0, 200) : titleOf(messages[0]?.content ?? ""),
      createdAt: timeOf(given["createdAt"]),
      updatedAt: timeOf(given["updatedAt"]),
      leafId: renamedId(given["leafId"]) ?? renamedId(messages.at(-1)?.id),
      settings: { ...DEFAULT_SETTINGS, ...settings },
    },
    messages: messages.map((message) => ({
      ...message,
      id: renamedId(message.id) ?? newId(),
      conversationId,
      parentId: renamedId(message.parentId),
    })),
  };
}

function isMessage(value: unknown): value is Message {
  return (
    isRecord(value) &&
    typeof value["id"] === "string" &&
    typeof value["content"] === "string" &&
    typeof value["createdAt"] === "number" &&
    ["user", "assistant", "tool"].includes(String(value["role"]))
  );
}

function timeOf(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : Date.now();
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
