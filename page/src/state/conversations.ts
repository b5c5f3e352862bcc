// The list of conversations and the one that is shown, kept in step with the database, with the address (`#/ID`) and with
// other tabs of the page.

import { batch, computed, signal } from "@preact/signals";
import { type ChatRecord, readChatFile, writeChatFile } from "../chat/chat-file";
import { newId } from "../ids";
import { type ChatSettings, type Conversation, type Message, titleOf } from "../chat/message";
import { branchTo, type MessageTree, newestLeaf } from "../chat/message-tree";
import {
  readConversations,
  readMessages,
  removeConversation,
  writeChats,
  writeConversation,
  writeMessage,
} from "../store/database";
import { isSidebarOpen, newChatSettings } from "../store/preferences";

/** All conversations, the most recent first. */
export const conversations = signal<readonly Conversation[]>([]);
/** The id of the conversation that is shown; undefined for a new one. */
export const currentId = signal<string | undefined>(undefined);
/** The messages of the conversation that is shown. */
export const messages = signal<MessageTree>(new Map());

export const current = computed(() => conversations.value.find(({ id }) => id === currentId.value));
export const settings = computed(() => current.value?.settings ?? newChatSettings.value);
/** The branch that is shown. */
export const branch = computed(() => branchTo(messages.value, current.value?.leafId ?? null));

const tabs = new BroadcastChannel("rocmforge");
tabs.addEventListener("message", () => void refresh());

/** Reads the database and shows the conversation that the address names. */
export async function startConversations(): Promise<void> {
  conversations.value = await readConversations();
  addEventListener("hashchange", () => void showAddress());
  await showAddress();
}

async function showAddress(): Promise<void> {
  const { hash } = location;
  const id = /^#\/([\w-]+)$/.exec(hash)?.[1];
  if (id === currentId.value && id !== undefined) return;
  const known = conversations.value.find((conversation) => conversation.id === id);
  const stored = known === undefined ? [] : await readMessages(known.id);
  // Another conversation may have been opened while this one was read.
  if (location.hash === hash) show(known?.id, stored);
}

function show(id: string | undefined, stored: readonly Message[]): void {
  batch(() => {
    currentId.value = id;
    messages.value = new Map(stored.map((message) => [message.id, message]));
  });
}

/** Another tab has changed something; an answer that is generated here is newer than what is stored. */
async function refresh(): Promise<void> {
  const list = await readConversations();
  const id = currentId.value;
  const stored = id === undefined ? [] : await readMessages(id);
  batch(() => {
    conversations.value = list;
    if (id !== currentId.value) return;
    const growing = [...messages.value.values()].filter(({ role, end }) => role === "assistant" && end === undefined);
    messages.value = new Map([...stored, ...growing].map((message) => [message.id, message]));
  });
}

/** Below this width the list covers the conversation. */
const NARROW = matchMedia("(max-width: 760px)");

/** Shows a conversation, or a new one. */
export function openConversation(id: string | undefined): void {
  if (NARROW.matches) isSidebarOpen.value = false;
  location.hash = id === undefined ? "#/" : `#/${id}`;
  // At once: the event comes later, and what is typed meanwhile must not go to the old conversation.
  if (id === undefined) show(undefined, []);
}

/** Creates a conversation for a first question and shows it. */
export async function createConversation(question: string): Promise<Conversation> {
  const now = Date.now();
  const conversation: Conversation = {
    id: newId(),
    title: titleOf(question),
    createdAt: now,
    updatedAt: now,
    leafId: null,
    settings: newChatSettings.value,
  };
  batch(() => {
    conversations.value = [conversation, ...conversations.value];
    currentId.value = conversation.id;
    messages.value = new Map();
  });
  openConversation(conversation.id);
  await writeConversation(conversation);
  return conversation;
}

export async function updateConversation(id: string, change: Partial<Conversation>): Promise<void> {
  const old = conversations.value.find((conversation) => conversation.id === id);
  if (old === undefined) return;
  const changed = { ...old, ...change };
  conversations.value = conversations.value
    .map((conversation) => (conversation.id === id ? changed : conversation))
    .sort((one, other) => other.updatedAt - one.updatedAt);
  await writeConversation(changed);
  tabs.postMessage("changed");
}

/** Changes the settings of the conversation that is shown, and those of the next new one. */
export async function changeSettings(change: Partial<ChatSettings>): Promise<void> {
  const changed = withoutUndefined({ ...settings.value, ...change });
  if (current.value === undefined) newChatSettings.value = changed;
  else await updateConversation(current.value.id, { settings: changed });
}

function withoutUndefined(given: ChatSettings): ChatSettings {
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as unknown as ChatSettings;
}

/** Shows a message, and stores it unless it is still growing. */
export async function putMessage(message: Message, isStored: boolean): Promise<void> {
  if (message.conversationId === currentId.value) messages.value = new Map(messages.value).set(message.id, message);
  if (isStored) await writeMessage(message);
}

/** Adds a message at the end of the branch that is shown, or as a sibling of another. */
export async function addMessage(message: Message): Promise<void> {
  await putMessage(message, true);
  await updateConversation(message.conversationId, { leafId: message.id, updatedAt: message.createdAt });
}

/** Shows the branch that a message is on. */
export async function showBranch({ id, conversationId }: Message): Promise<void> {
  await updateConversation(conversationId, { leafId: newestLeaf(messages.value, id) });
}

export async function deleteConversation(id: string): Promise<void> {
  conversations.value = conversations.value.filter((conversation) => conversation.id !== id);
  if (currentId.value === id) openConversation(undefined);
  await removeConversation(id);
  tabs.postMessage("changed");
}

/** The conversations as a file: one of them, or all. */
export async function exportChats(id?: string): Promise<string> {
  const chosen = conversations.value.filter((conversation) => id === undefined || conversation.id === id);
  const chats: ChatRecord[] = [];
  for (const conversation of chosen) chats.push({ conversation, messages: await readMessages(conversation.id) });
  return writeChatFile(chats);
}

/** Adds the conversations of a file; returns their number. */
export async function importChats(text: string): Promise<number> {
  const chats = readChatFile(text);
  await writeChats(chats);
  await refresh();
  tabs.postMessage("changed");
  return chats.length;
}
