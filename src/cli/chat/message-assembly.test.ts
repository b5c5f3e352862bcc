import { describe, expect, it } from "vitest";
import { MAX_MESSAGE_CHARACTERS, MessageAssembly } from "./message-assembly.js";

function messagesOf(...lines: readonly string[]): readonly unknown[] {
  const assembly = new MessageAssembly();
  const messages = lines.map((line) => assembly.push(line));
  return [...messages, assembly.finish()]
    .filter((message) => message !== undefined)
    .map(({ text, verbatim }) => (verbatim ? { block: text } : text));
}

describe("messages from lines", () => {
  it.each<[what: string, lines: readonly string[], messages: readonly unknown[]]>([
    ["each line is one", ["one", " two "], ["one", " two "]],
    ["empty lines are none", ["", "  ", "one", "\t"], ["one"]],
    ["a backslash goes on", ["one\\", "two\\", "", "three"], ["one\ntwo\n", "three"]],
    ["two backslashes end in one", ["one\\\\", "two"], ["one\\", "two"]],
    ["a backslash at the very end is no loss", ["one\\"], ["one"]],
    ["a block", ['"""', "one", "", "  /two\\", '"""', "three"], [{ block: "one\n\n  /two\\" }, "three"]],
    ["a block that begins and ends in its lines", ['"""one', 'two"""'], [{ block: "one\ntwo" }]],
    ["a block in one line", ['"""/one"""'], [{ block: "/one" }]],
    ["a block that is not closed", ['"""', "one"], [{ block: "one" }]],
    ["an empty block is none", ['"""', '"""', "one"], ["one"]],
    ["quotation marks inside a line mean nothing", ['say """x"""'], ['say """x"""']],
  ])("%s", (_what, lines, messages) => {
    expect(messagesOf(...lines)).toEqual(messages);
  });

  it("takes back what was begun", () => {
    const assembly = new MessageAssembly();
    assembly.push("one\\");
    expect(assembly.isOpen).toBe(true);
    assembly.discard();
    expect([assembly.isOpen, assembly.push("two")]).toEqual([false, { text: "two", verbatim: false }]);
  });

  it("refuses a message without end, and takes the next", () => {
    const assembly = new MessageAssembly();
    assembly.push('"""');
    const line = "x".repeat(2 ** 20);
    expect(() => {
      for (let characters = 0; characters <= MAX_MESSAGE_CHARACTERS; characters += line.length) assembly.push(line);
    }).toThrow(/at most 16,777,216 characters/);
    expect(assembly.push("one")).toEqual({ text: "one", verbatim: false });
  });
});
