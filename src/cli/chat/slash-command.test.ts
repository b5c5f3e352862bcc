import { describe, expect, it } from "vitest";
import { commandList, completeCommand, isCommand, parseCommand, unescapeMessage } from "./slash-command.js";

describe("slash commands", () => {
  it.each([
    ["/help", "help", ""],
    ["/quit", "quit", ""],
    ["/exit", "quit", ""],
    ["/system  You are a pirate.\nSpeak so. ", "system", "You are a pirate.\nSpeak so."],
    ["/system", "system", ""],
    ["/save my chat.json", "save", "my chat.json"],
  ])("reads %j", (text, name, argument) => {
    expect(parseCommand(text)).toEqual({ name, argument });
  });

  it.each([
    ["/rest", /no command "\/rest"; did you mean \/reset\?/],
    ["/usr/bin/env", /no command "\/usr\/bin\/env".*two slashes/],
    ["/constructor", /no command/],
    ["/", /no command "\/"/],
    ["/save", /\/save: expected FILE after it, found nothing/],
    ["/reset all", /\/reset: expected nothing after it, found "all"/],
  ])("rejects %j", (text, message) => {
    expect(() => parseCommand(text)).toThrow(message);
  });

  it("tells commands from messages that begin with a slash", () => {
    expect(["/help", "//help", "help", " /help"].map(isCommand)).toEqual([true, false, false, false]);
    expect(["//help", "help"].map(unescapeMessage)).toEqual(["/help", "help"]);
  });

  it("completes names", () => {
    expect([completeCommand("/re"), completeCommand("re"), completeCommand("/save x")]).toEqual([
      ["/reset", "/regenerate"],
      [],
      [],
    ]);
  });

  it("lists every command", () => {
    for (const name of completeCommand("/"))
      expect(commandList()).toContain(`\n  ${name} `.slice(name === "/help" ? 1 : 0));
  });
});
