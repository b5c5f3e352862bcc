import { describe, expect, it } from "vitest";
import { readChatFile, writeChatFile } from "./chat-file";
import { DEFAULT_SETTINGS, type Message } from "./message";

const messages: readonly Message[] = [
  { id: "q", conversationId: "c", parentId: null, role: "user", content: "Hi", createdAt: 1 },
  { id: "a", conversationId: "c", parentId: "q", role: "assistant", content: "Hello", createdAt: 2, end: "stop" },
];
const conversation = { id: "c", title: "Hi", createdAt: 1, updatedAt: 2, leafId: "a", settings: DEFAULT_SETTINGS };

describe("a file of conversations", () => {
  it("gives back what was written, under new ids", () => {
    const [chat] = readChatFile(writeChatFile([{ conversation, messages }]));
    expect(chat?.conversation).toMatchObject({ title: "Hi", leafId: chat?.messages[1]?.id });
    expect(chat?.conversation.id).not.toBe("c");
    expect(chat?.messages.map(({ content }) => content)).toEqual(["Hi", "Hello"]);
    expect(chat?.messages[1]?.parentId).toBe(chat?.messages[0]?.id);
    expect(chat?.messages.every(({ conversationId }) => conversationId === chat.conversation.id)).toBe(true);
  });

  it.each(["", "{", "[]", '{"format":"other","chats":[]}'])("rejects %j", (text) => {
    expect(() => readChatFile(text)).toThrow("not a file of conversations");
  });

  it("leaves out what is no message", () => {
    const damaged = [...messages, { id: 5 }, null, { ...messages[0], role: "system" }];
    const text = JSON.stringify({ format: "rocmforge-chats", version: 1, chats: [{ messages: damaged }, 7] });
    const chats = readChatFile(text);
    expect(chats).toHaveLength(1);
    expect(chats[0]?.messages).toHaveLength(2);
    expect(chats[0]?.conversation.title).toBe("Hi");
  });
});
