import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../test/support/temporary-folder.js";
import { FileError } from "../../errors.js";
import { Conversation } from "./conversation.js";
import { loadConversation, parseConversation, saveConversation } from "./saved-conversation.js";

function conversationOf(system: string | undefined, ...turns: readonly (readonly [string, string])[]): Conversation {
  const conversation = new Conversation(system);
  for (const [message, answer] of turns) conversation.add({ message, answer });
  return conversation;
}

const file = (messages: unknown): string => JSON.stringify({ format: "rocmforge-chat", version: 1, messages });

describe("a saved conversation", () => {
  it("comes back as it was", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("chat.json");
    await fc.assert(
      fc.asyncProperty(
        fc.option(fc.string(), { nil: undefined }),
        fc.array(fc.tuple(fc.string({ unit: "grapheme" }), fc.string())),
        async (system, turns) => {
          const conversation = conversationOf(system, ...turns);
          await saveConversation(path, conversation, "model");
          expect(await loadConversation(path)).toEqual({ system, turns: conversation.turns });
        },
      ),
      { numRuns: 20 },
    );
    expect(readdirSync(folder.path)).toEqual(["chat.json"]);
  });

  it("replaces one of its kind and nothing else", async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("model.gguf"), "GGUF");
    mkdirSync(folder.file("folder"));
    await expect(saveConversation(folder.file("model.gguf"), new Conversation(), "model")).rejects.toThrow(
      /FILE_WRITE|expected a saved conversation to replace/,
    );
    await expect(saveConversation(folder.file("folder"), new Conversation(), "model")).rejects.toThrow(
      /choose another name/,
    );
    await expect(saveConversation(folder.file("none/chat.json"), new Conversation(), "model")).rejects.toThrow(
      /could not be written: its folder does not exist \(ENOENT\)/,
    );
    expect(readFileSync(folder.file("model.gguf"), "utf8")).toBe("GGUF");
    expect(readdirSync(folder.path)).toEqual(["folder", "model.gguf"]);
  });

  it.skipIf(process.platform === "win32")(
    "keeps the reason where a file cannot be looked at (skipped on Windows, which has no such reason)",
    async () => {
      using folder = new TemporaryFolder();
      writeFileSync(folder.file("model.gguf"), "GGUF");
      await expect(
        saveConversation(folder.file("model.gguf/chat.json"), new Conversation(), "model"),
      ).rejects.toMatchObject({
        code: "FILE_WRITE",
        message: expect.stringMatching(
          /chat\.json: cannot be read \(ENOTDIR: .*\), so it was not replaced; choose another name$/,
        ) as string,
      });
    },
  );

  it.each<[what: string, text: string, message: RegExp]>([
    ["something that is not JSON", "Once upon a time", /not JSON/],
    ["null", "null", /"format"/],
    ["a list", "[]", /"format"/],
    ["a message that is a list", file([["user"]]), /messages\[0\]\.content/],
    ["another format", "{}", /"format": "rocmforge-chat"/],
    ["a newer version", JSON.stringify({ format: "rocmforge-chat", version: 2 }), /"version": 1/],
    ["no messages", file(undefined), /"messages", a list/],
    ["messages that are no list", file({ length: 1 }), /"messages", a list/],
    ["a message without text", file([{ role: "user", content: 5 }]), /messages\[0\]\.content/],
    ["a message that is none", file([null]), /messages\[0\]\.content/],
    ["a message without an answer", file([{ role: "user", content: "a" }]), /by turns/],
    [
      "an unknown role",
      file([
        { role: "tool", content: "a" },
        { role: "assistant", content: "a" },
      ]),
      /by turns/,
    ],
    [
      "a system text in the middle",
      file([
        { role: "user", content: "a" },
        { role: "system", content: "a" },
      ]),
      /by turns/,
    ],
  ])("rejects %s", (_what, text, message) => {
    expect(() => parseConversation("chat.json", text)).toThrow(message);
    expect(() => parseConversation("chat.json", text)).toThrow(FileError);
  });

  it.each([
    ["nothing", "none.json", "FILE_NOT_FOUND"],
    ["a folder", ".", "FILE_UNREADABLE"],
    ["a device without end", "/dev/zero", "FILE_UNREADABLE"],
  ])("rejects %s in its place", async (_what, path, code) => {
    await expect(loadConversation(path)).rejects.toMatchObject({ code });
  });
});
