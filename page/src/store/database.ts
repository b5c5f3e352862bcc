// The browser's database of conversations. Messages are stored one by one, so that an answer that grows rewrites itself
// alone. Nothing of it leaves the browser except in requests to the server.

import { type DBSchema, type IDBPDatabase, openDB } from "idb";
import type { ChatRecord } from "../chat/chat-file";
import type { Conversation, Message } from "../chat/message";

interface ChatSchema extends DBSchema {
  conversations: { key: string; value: Conversation; indexes: { updatedAt: number } };
  messages: { key: string; value: Message; indexes: { conversationId: string } };
}

const NAME = "rocmforge";
const VERSION = 1;

let opened: Promise<IDBPDatabase<ChatSchema>> | undefined;

function database(): Promise<IDBPDatabase<ChatSchema>> {
  opened ??= openDB<ChatSchema>(NAME, VERSION, {
    upgrade: (db) => {
      db.createObjectStore("conversations", { keyPath: "id" }).createIndex("updatedAt", "updatedAt");
      db.createObjectStore("messages", { keyPath: "id" }).createIndex("conversationId", "conversationId");
    },
  });
  return opened;
}

/** All conversations, the most recent first. */
export async function readConversations(): Promise<readonly Conversation[]> {
  return (await (await database()).getAllFromIndex("conversations", "updatedAt")).reverse();
}

export async function readMessages(conversationId: string): Promise<readonly Message[]> {
  return await (await database()).getAllFromIndex("messages", "conversationId", conversationId);
}

export async function writeConversation(conversation: Conversation): Promise<void> {
  await (await database()).put("conversations", conversation);
}

export async function writeMessage(message: Message): Promise<void> {
  await (await database()).put("messages", message);
}

export async function writeChats(chats: readonly ChatRecord[]): Promise<void> {
  const writing = (await database()).transaction(["conversations", "messages"], "readwrite");
  for (const { conversation, messages } of chats) {
    void writing.objectStore("conversations").put(conversation);
    for (const message of messages) void writing.objectStore("messages").put(message);
  }
  await writing.done;
}

export async function removeConversation(id: string): Promise<void> {
  const removing = (await database()).transaction(["conversations", "messages"], "readwrite");
  const keys = await removing.objectStore("messages").index("conversationId").getAllKeys(id);
  for (const key of keys) void removing.objectStore("messages").delete(key);
  void removing.objectStore("conversations").delete(id);
  await removing.done;
}

/** The ids of conversations with a message that contains the text, each with words around it; at most `limit`. */
export async function searchMessages(text: string, limit: number): Promise<ReadonlyMap<string, string>> {
  const wanted = text.toLowerCase();
  const found = new Map<string, string>();
  const reading = (await database()).transaction("messages");
  for (let cursor = await reading.store.openCursor(); cursor !== null; cursor = await cursor.continue()) {
    const { conversationId, content } = cursor.value;
    if (found.has(conversationId)) continue;
    const at = content.toLowerCase().indexOf(wanted);
    if (at !== -1) found.set(conversationId, excerpt(content, at, wanted.length));
    if (found.size >= limit) break;
  }
  return found;
}

const EXCERPT_CHARACTERS = 28;

function excerpt(content: string, at: number, length: number): string {
  const start = Math.max(0, at - EXCERPT_CHARACTERS);
  const end = at + length + EXCERPT_CHARACTERS;
  const text = content.slice(start, end).replaceAll(/\s+/g, " ");
  return `${start > 0 ? "…" : ""}${text}${end < content.length ? "…" : ""}`;
}
